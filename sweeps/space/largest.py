"""The point of a space that takes the most memory and time, as far as the space tells.

A whole number is mostly a size (rows of a batch, width, layers) and has its largest value. A float mostly is
not, and takes the middle of its range. Choices that are no numbers, kinds of layers say, are drawn.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sweeps.space.numeric_range import Range
from sweeps.space.point import InvalidPoint, Point, Space, TrialProxy

DRAWS = 200
"""Points that are looked at, and as many random ones: the largest values may be no point."""


class _Largest(TrialProxy):
    """Answers with the largest whole numbers, and with random choices of other kinds."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator

    def _number(self, name: str, asked: Range) -> float:
        return asked.nearest(asked.high if asked.is_whole else asked.at(0.5))

    def _choice(self, name: str, choices: Sequence[Any]) -> Any:
        if all(isinstance(each, int) and not isinstance(each, bool) for each in choices):
            return max(choices)
        return self._generator.choice(choices)


def point(space: Space, seed: int, is_refused: Callable[[Point], bool]) -> Point | None:
    """The point that costs most; None where all that were looked at are refused.

    Args:
        space: of the sweep.
        seed: of what is drawn.
        is_refused: whether the trainable's Params refuse a point.
    """
    allowed = (each for each in _candidates(space, seed) if not is_refused(each))
    return max(allowed, key=_size, default=None)


def _candidates(space: Space, seed: int) -> Iterator[Point]:
    generator = random.Random(seed)
    for number in range(2 * DRAWS):
        with contextlib.suppress(InvalidPoint, ValueError, LookupError):  # values may exclude one another
            yield space.suggest(_Largest(generator)) if number < DRAWS else space.draw((seed, number - DRAWS))


def _size(point: Point) -> float:
    """By which points are compared: large where all their whole numbers are."""
    numbers = (value for value in point.params.values() if isinstance(value, int) and value > 0)
    return math.prod(math.log1p(number) for number in numbers)
