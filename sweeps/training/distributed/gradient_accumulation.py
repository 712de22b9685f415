"""How a batch is made up of micro-batches: micro-batch x accumulation x workers is what Params says.

The largest that fits in memory is bisected among those that make up the batch evenly. Lightning's own
finder doubles a batch that stands alone, and fails under DDP and DeepSpeed (Lightning#13370, #20994).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from sweeps.common.errors import CannotTrain

MARGIN = 10
"""One row more for so many has to fit: for the allocator's pieces, and batches that are larger than most."""


@dataclass(frozen=True)
class MicroBatch:
    """How a batch is split."""

    rows: int
    """Of one micro-batch, on one worker."""
    accumulation: int
    """Micro-batches between two steps of the optimizer."""


def of(data: object) -> int:
    """Rows of a batch that a data module's loaders read.

    Raises:
        CannotTrain: it does not say.
    """
    rows = getattr(data, "batch_size", None)
    if not isinstance(rows, int):
        raise CannotTrain(
            f"{type(data).__name__} has no attribute batch_size, the rows of a batch that its loaders "
            "read: without it a batch can't be split for several workers or into micro-batches"
        )
    return rows


def largest_that_fits(fits: Callable[[int], bool], effective_rows: int, workers: int) -> MicroBatch:
    """The fewest micro-batches that make up a batch and fit, found in about log2 of their choices.

    Args:
        fits: whether a micro-batch of so many rows trains; what is asked for is a margin larger than what
            is to be trained with.
        effective_rows: of a batch of all workers.
        workers: that share it.

    Raises:
        MemoryError: not even one row fits.
        CannotTrain: the batch can't be shared out evenly.
    """
    share = split(effective_rows, workers, effective_rows).rows
    choices = [rows for rows in range(1, share + 1) if share % rows == 0]
    if fits(with_margin(share)):  # mostly, and then it is the only try
        return split(effective_rows, workers, share)
    good, bad = -1, len(choices) - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(with_margin(choices[middle])):
            good = middle
        else:
            bad = middle
    if good < 0:
        raise MemoryError("not even a micro-batch of one row fits: the model itself is too large")
    return split(effective_rows, workers, choices[good])


def split(effective_rows: int, workers: int, fitting_rows: int) -> MicroBatch:
    """The fewest micro-batches, of equal size, that make up a batch and fit.

    Raises:
        CannotTrain: the batch can't be shared out evenly.
    """
    if effective_rows % workers:
        raise CannotTrain(
            f"batch_size {effective_rows}: {workers} workers share it, so it must be a multiple of {workers}"
        )
    share = effective_rows // workers
    accumulation = next(n for n in range(math.ceil(share / fitting_rows), share + 1) if share % n == 0)
    return MicroBatch(share // accumulation, accumulation)


def with_margin(rows: int) -> int:
    """What has to fit where so many rows are to be trained with; a single row can't be made smaller."""
    return rows if rows == 1 else rows + math.ceil(rows / MARGIN)
