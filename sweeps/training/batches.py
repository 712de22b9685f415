"""How batches make the steps and the epochs of a run.

micro-batch x accumulation x workers = batch_size of Params. The largest micro-batch that fits in memory is
bisected among the even parts of a batch: Lightning's own finder doubles the batch size, and fails under DDP
and DeepSpeed (Lightning#13370, #20994).

Lightning divides the loss of each micro-batch by the accumulation, also in the last step of an epoch, which
may have fewer. And where a loader drops its last batch, the rows that are left may fill a micro-batch, which
would make a step more than whole batches do.

An epoch may be longer or shorter than a pass over the data. A pass draws its order, and whatever the loader
draws in this process, from numbers of its own: a resumed run reads the pass again up to its place, and goes
on with the same rows.
"""

from __future__ import annotations

import bisect
import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities import CombinedLoader
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler

from sweeps.common.errors import CannotTrain
from sweeps.training.data.sampler import Batches
from sweeps.training.lightning_internals import mode_of
from sweeps.training.torch_state import random_states, random_states_kept, restore_random_states, seed_stream

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
        place: in the data, where an epoch is a part of a pass over it.
    """

    def __init__(self, split: MicroBatch, place: Place | None) -> None:
        self._split, self._place = split, place
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
        batch_idx = batch_idx if self._place is None else self._place.batches - 1
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


@dataclass
class Place:
    """A place in the data, the next one to read."""

    passes: int = 0
    """Over all of it, that have ended."""
    batches: int = 0
    """That were read since."""


class ContinuedLoader(CombinedLoader):
    """Goes on with each epoch where the one before has stopped.

    Args:
        given: what a model or a data module gives: one loader, or several.
        interval: batches of an epoch; below 1, as in Lightning, the share of a pass.
        steps: whole batches of a step of the optimizer, which must not be cut at the end of an epoch, and
            micro-batches of a batch.
        place: to begin at; is kept up to date.
    """

    def __init__(
        self, given: Any, interval: float | int, steps: tuple[int, int], seed: int, place: Place
    ) -> None:
        is_combined = isinstance(given, CombinedLoader)
        super().__init__(given.iterables if is_combined else given, mode_of(given))
        self._interval, self._seed, self._place = interval, seed, place
        self._accumulation, self._parts = steps
        self._numbers: dict[str, Any] | None = None
        """The random numbers to come of this pass; None before it."""
        self._batches = 0
        """Of this epoch, so far."""

    def __iter__(self) -> Self:
        """Begin an epoch."""
        self._batches = 0
        if self._numbers is None:
            to_read, self._place.batches = self._place.batches, 0
            with self._own_numbers():
                self._begin_pass()
                for _ in range(to_read):
                    self._read()
        return self

    def __len__(self) -> int:
        """Batches of an epoch."""
        batches = self._interval if isinstance(self._interval, int) else self._share()
        if batches % (self._accumulation * self._parts):
            whole = batches // self._parts
            more = (whole // self._accumulation + 1) * self._accumulation
            raise CannotTrain(
                f"val_check_interval: {whole} batches are no multiple of accumulate_grad_batches "
                f"{self._accumulation}, and the last step of each epoch would have too few; give "
                f"--val-check-interval {more}"
            )
        return batches

    def _share(self) -> int:
        """Batches of a share of a pass."""
        if (batches := self._pass_batches()) == math.inf:
            raise CannotTrain(
                f"val_check_interval {self._interval:g}: the training data does not say how long it is; "
                "give a number of batches"
            )
        return max(1, int(batches * self._interval))

    def __next__(self) -> Any:
        if self._batches >= len(self):
            raise StopIteration
        if not self._batches:
            self._set_epochs()  # also amid a pass, in which a shorter one of several loaders begins again
        with self._own_numbers():
            batch, _, which = self._read()
        self._batches += 1
        return batch, self._batches - 1, which

    def _read(self) -> Any:
        """The next batch, of the next pass where this one has ended."""
        found = None
        if self._place.batches < self._pass_batches():
            found = self._next_of_pass()
        if found is None and self._place.batches:
            self._place.passes, self._place.batches = self._place.passes + 1, 0
            self._begin_pass()
            found = self._next_of_pass()
        if found is None:  # there is no row at all
            raise StopIteration
        self._place.batches += 1
        return found

    def _begin_pass(self) -> None:
        seed_stream(self._seed, self._place.passes, 3)
        self._set_epochs()
        super().__iter__()

    def _set_epochs(self) -> None:
        """Let samplers that shuffle by a number of the epoch take that of the pass; Lightning has told them
        its own."""
        for loader in self.flattened:
            for sampler in (getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)):
                for each in (sampler, getattr(sampler, "sampler", None)):
                    if callable(set_epoch := getattr(each, "set_epoch", None)):
                        set_epoch(self._place.passes)

    def _pass_batches(self) -> float:
        """Batches of a pass, within its limit; infinite where that is not known."""
        try:
            return super().__len__()
        except TypeError:  # infinity is no length
            return math.inf

    def _next_of_pass(self) -> Any:
        """The next batch of the pass; None behind the last one."""
        try:
            return super().__next__()
        except StopIteration:
            return None

    @contextlib.contextmanager
    def _own_numbers(self) -> Iterator[None]:
        with random_states_kept():
            if self._numbers is not None:
                restore_random_states(self._numbers)
            try:
                yield
            finally:
                self._numbers = random_states()
