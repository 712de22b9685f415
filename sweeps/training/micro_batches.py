"""Micro-batches that make up the same steps of the optimizer as whole batches: as many, of the same rows.

Lightning divides the loss of each micro-batch by the accumulation, also in the last step of an epoch, which
may have fewer. And where a loader drops its last batch, the rows that are left may fill a micro-batch, which
would make a step more than whole batches do.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import lightning.pytorch as pl
import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler

from sweeps.training.data.sampler import Batches
from sweeps.training.distributed.gradient_accumulation import MicroBatch


class EpochRows(NamedTuple):
    """The rows of one worker in an epoch."""

    rows: int
    drops_last: bool
    """Whether a last batch that is not full is left out."""


class MicroBatches(pl.Callback):
    """Weighs each micro-batch by its share of its step's rows, and leaves out what whole batches leave out.

    Where the rows of an epoch are not known (an iterable data set), the weights are Lightning's: the last
    step of an epoch then has too small gradients.
    """

    def __init__(self, split: MicroBatch) -> None:
        self._split = split
        self._last_step = math.inf, 0
        """Index of the first batch of a last step that is not full, and its rows."""
        self._weight = 1.0

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Limit the batches of an epoch, before Lightning asks for its loaders."""
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # Lightning sets it without declaring it
        epoch = rows_of_epoch(data.train_dataloader(), trainer.world_size)
        if epoch is None:
            return
        steps, rest = divmod(epoch.rows, self._split.share)
        whole = steps * self._split.accumulation
        if not epoch.drops_last:
            self._last_step = whole, rest
        limit = trainer.limit_train_batches
        if isinstance(limit, float) and limit < 1:  # a share of the whole batches
            batches = steps if epoch.drops_last else steps + bool(rest)
            trainer.limit_train_batches = int(batches * limit) * self._split.accumulation
        elif epoch.drops_last:
            trainer.limit_train_batches = min(limit, whole) if isinstance(limit, int) else whole

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        first, step_rows = self._last_step
        self._weight = 1.0
        if batch_idx >= first and step_rows:
            rows = min(self._split.rows, step_rows - (batch_idx - int(first)) * self._split.rows)
            self._weight = rows / step_rows * self._split.accumulation

    def on_before_backward(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: torch.Tensor
    ) -> None:
        weight = self._weight
        if weight != 1:
            loss.register_hook(lambda gradient: gradient * weight)  # type: ignore[no-untyped-call]


def rows_of_epoch(loader: object, workers: int) -> EpochRows | None:
    """The rows of an epoch of a training loader; None where they are not known.

    Args:
        loader: before Lightning has distributed it among the workers.
        workers: number of workers.
    """
    if not isinstance(loader, DataLoader):
        return None
    if isinstance(loader.sampler, Batches):
        return EpochRows(loader.sampler.rows, loader.sampler.drops_last)
    batches = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    if not isinstance(batches, BatchSampler):
        return None
    try:
        rows = len(batches.sampler)  # type: ignore[arg-type]
    except TypeError:
        return None
    is_distributed = isinstance(batches.sampler, DistributedSampler)
    return EpochRows(rows if is_distributed else math.ceil(rows / workers), batches.drop_last)
