"""The split of a batch, and micro-batches that train as whole batches do: as many steps, of the same rows.

micro-batch x accumulation x workers = batch_size of Params. The largest micro-batch that fits in memory is
bisected among the even parts of a batch: Lightning's own finder doubles the batch size, and fails under DDP
and DeepSpeed (Lightning#13370, #20994).

Lightning divides the loss of each micro-batch by the accumulation, also in the last step of an epoch, which
may have fewer. And where a loader drops its last batch, the rows that are left may fill a micro-batch, which
would make a step more than whole batches do.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler

from sweeps.common.errors import CannotTrain
from sweeps.training.data.sampler import Batches

MARGIN = 10
"""One more row in so many must fit: room for fragmentation, and for batches larger than most."""


@dataclass(frozen=True)
class MicroBatch:
    """The split of a batch."""

    rows: int
    """Rows of one micro-batch on one worker."""
    accumulation: int
    """Micro-batches between two steps of the optimizer."""

    @property
    def share(self) -> int:
        """Rows of one worker between two steps."""
        return self.rows * self.accumulation


def read_batch_rows(data: object) -> int:
    """The batch size of a data module, in rows.

    Raises:
        CannotTrain: it has no attribute `batch_size`.
    """
    rows = getattr(data, "batch_size", None)
    if not isinstance(rows, int):
        raise CannotTrain(
            f"{type(data).__name__} has no attribute batch_size. Set it to the rows of a batch that the "
            "loaders read: a batch is split among workers and into micro-batches by it"
        )
    return rows


def largest_that_fits(fits: Callable[[int], bool], effective_rows: int, workers: int) -> MicroBatch:
    """The largest micro-batch that fits, found in about log2(number of divisors) tries.

    Args:
        fits: whether a micro-batch of so many rows trains; it is called with a margin.
        effective_rows: rows of a batch of all workers.
        workers: number of workers that share the batch.

    Raises:
        MemoryError: not even one row fits.
        CannotTrain: the batch is no multiple of the workers.
    """
    share = split(effective_rows, workers, effective_rows).rows
    if fits(with_margin(share)):  # the usual case, in one try
        return split(effective_rows, workers, share)
    smaller = [rows for rows in range(1, share) if share % rows == 0]
    fitting = bisect.bisect_right(smaller, False, key=lambda rows: not fits(with_margin(rows)))
    if not fitting:
        raise MemoryError("not even a micro-batch of one row fits: the model itself is too large")
    return split(effective_rows, workers, smaller[fitting - 1])


def split(effective_rows: int, workers: int, fitting_rows: int) -> MicroBatch:
    """The fewest micro-batches of equal size, of at most `fitting_rows` each.

    Raises:
        CannotTrain: the batch is no multiple of the workers.
    """
    if effective_rows % workers:
        raise CannotTrain(
            f"batch_size {effective_rows}: {workers} workers share it, so it must be a multiple of {workers}"
        )
    share = effective_rows // workers
    accumulation = next(n for n in range(math.ceil(share / fitting_rows), share + 1) if share % n == 0)
    return MicroBatch(share // accumulation, accumulation)


def with_margin(rows: int) -> int:
    """Rows that must fit in memory for a micro-batch of so many; one row can't be made smaller."""
    return rows if rows == 1 else rows + math.ceil(rows / MARGIN)


class MicroBatches(pl.Callback):
    """Weighs each micro-batch by its share of its step's rows, and leaves out what whole batches leave out.

    Where the rows of an epoch are not known (an iterable data set), the weights are Lightning's: the last
    step of an epoch then has too small gradients.

    Args:
        split: of the batch.
        batches_of_pass: those that were read, where an epoch is a part of a pass over the data.
    """

    def __init__(self, split: MicroBatch, batches_of_pass: Callable[[], int] | None = None) -> None:
        self._split, self._batches_of_pass = split, batches_of_pass
        self._last_step = math.inf, 0
        """Index of the first batch of a last step that is not full, and its rows."""
        self._weight = 1.0

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Limit the batches of an epoch, before Lightning asks for its loaders."""
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # Lightning sets it without declaring it
        epoch = rows_of_epoch(data.train_dataloader(), trainer.world_size)
        if epoch is None:
            return
        epoch_rows, drops_last = epoch
        steps, rest = divmod(epoch_rows, self._split.share)
        whole = steps * self._split.accumulation
        if not drops_last:
            self._last_step = whole, rest
        limit = trainer.limit_train_batches
        if isinstance(limit, float) and limit < 1:  # a share of the whole batches
            batches = steps if drops_last else steps + bool(rest)
            trainer.limit_train_batches = int(batches * limit) * self._split.accumulation
        elif drops_last:
            trainer.limit_train_batches = min(limit, whole) if isinstance(limit, int) else whole

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        first, step_rows = self._last_step
        self._weight = 1.0
        batch_idx = batch_idx if self._batches_of_pass is None else self._batches_of_pass() - 1
        if batch_idx >= first and step_rows:
            rows = min(self._split.rows, step_rows - (batch_idx - int(first)) * self._split.rows)
            self._weight = rows / step_rows * self._split.accumulation

    def on_before_backward(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: torch.Tensor
    ) -> None:
        weight = self._weight
        if weight != 1:
            loss.register_hook(lambda gradient: gradient * weight)  # type: ignore[no-untyped-call]


def rows_of_epoch(loader: object, workers: int) -> tuple[int, bool] | None:
    """The rows of one worker in an epoch, and whether a last batch that is not full is left out; None where
    that is not known.

    Args:
        loader: before Lightning has distributed it among the workers.
        workers: number of workers.
    """
    if not isinstance(loader, DataLoader):
        return None
    if isinstance(loader.sampler, Batches):
        return loader.sampler.rows, loader.sampler.drops_last
    batches = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    if not isinstance(batches, BatchSampler):
        return None
    try:
        rows = len(batches.sampler)  # type: ignore[arg-type]
    except TypeError:
        return None
    is_distributed = isinstance(batches.sampler, DistributedSampler)
    return rows if is_distributed else math.ceil(rows / workers), batches.drop_last
