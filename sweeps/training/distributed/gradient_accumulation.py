"""Gradient accumulation: micro-batch x accumulation x workers = batch_size of Params.

The largest micro-batch that fits in memory is bisected among the even parts of a batch. Lightning's own
finder doubles the batch size, and fails under DDP and DeepSpeed (Lightning#13370, #20994).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass

from sweeps.common.errors import CannotTrain

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


def of(data: object) -> int:
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


def smaller(effective_rows: int, workers: int, rows: int, share_that_may_fit: float = 1.0) -> MicroBatch:
    """The split to go on with where micro-batches of `rows` did not fit: half of them, or less.

    Args:
        effective_rows: rows of a batch of all workers.
        workers: number of workers that share the batch.
        rows: rows of a micro-batch that did not fit.
        share_that_may_fit: as it was measured.

    Raises:
        MemoryError: it had one row.
    """
    if rows == 1:
        raise MemoryError("not even a micro-batch of one row fits")
    return split(effective_rows, workers, max(1, int(rows * min(0.5, share_that_may_fit))))


def with_margin(rows: int) -> int:
    """Rows that must fit in memory for a micro-batch of so many; one row can't be made smaller."""
    return rows if rows == 1 else rows + math.ceil(rows / MARGIN)
