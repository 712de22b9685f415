"""The largest micro-batch that fits in memory: doubled until it does not, then bisected.

Lightning's own finder fails under DDP and DeepSpeed (Lightning#13370, #20994). Here a size is tried by
whoever knows how (`fits`), on every worker of a run at once, and fits where it fits on all.

The effective batch stays what Params says: micro-batch x accumulation x workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from training.config import CannotTrain

MARGIN = 0.9
"""Of what was found; the allocator's pieces, and batches that are larger than most, want some room."""


@dataclass(frozen=True)
class MicroBatch:
    """How a batch is split."""

    rows: int
    """Of one micro-batch, on one worker."""
    accumulation: int
    """Micro-batches between two steps of the optimizer."""


def largest_that_fits(fits: Callable[[int], bool], most: int) -> int:
    """The largest number of rows up to `most` that fits, found in about 2 log2(most) tries.

    Args:
        fits: whether a micro-batch of so many rows trains; asked for more only when fewer did.
        most: more are not wanted.

    Raises:
        MemoryError: not even one row fits.
    """
    if not fits(1):
        raise MemoryError("not even a micro-batch of one row fits: the model itself is too large")
    good, bad = 1, most + 1
    while good * 2 <= most and fits(good * 2):
        good *= 2
    if good * 2 <= most:
        bad = good * 2
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good


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
    """What to train with where so many rows just fit."""
    return max(1, math.floor(rows * MARGIN))
