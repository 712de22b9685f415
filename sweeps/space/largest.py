"""The point of a space that takes the most memory and time, as far as the space tells.

A whole number is mostly a size (rows of a batch, width, layers) and has its largest value. A float mostly is
not, and takes the middle of its range. Choices that are no numbers, kinds of layers say, are all looked at.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sweeps.space.numeric_range import Range
from sweeps.space.point import InvalidPoint, Point, Space, TrialProxy

DRAWS = 200
"""Random points that are looked through where the largest values together are no point."""


class _Largest(TrialProxy):
    """Answers with the largest whole numbers, and with certain choices.

    Args:
        chosen: name of a hyperparameter without an order to the index of its choice; others take the first.
    """

    def __init__(self, chosen: Mapping[str, int]) -> None:
        self._chosen = chosen
        self.sizes: dict[str, int] = {}
        """Choices that each hyperparameter without an order has, as they were asked for."""

    def _number(self, name: str, asked: Range) -> float:
        return asked.nearest(asked.high if asked.is_whole else asked.at(0.5))

    def _choice(self, name: str, choices: Sequence[Any]) -> Any:
        if all(isinstance(each, int) and not isinstance(each, bool) for each in choices):
            return max(choices)
        self.sizes[name] = len(choices)
        return choices[self._chosen.get(name, 0)]


def point(space: Space, seed: int, is_refused: Callable[[Point], bool]) -> Point | None:
    """The point that costs most; None where all that were looked at are refused.

    Args:
        space: of the sweep.
        seed: of the random points that are looked through where the largest values together are no point.
        is_refused: whether the trainable's Params refuse a point.
    """
    for candidates in (_corners(space), _drawn(space, seed)):
        if allowed := [each for each in candidates if not is_refused(each)]:
            return max(allowed, key=_size)
    return None


def _corners(space: Space) -> Iterator[Point]:
    """The largest values, with each choice once."""
    to_try: deque[dict[str, int]] = deque([{}])
    seen: set[str] = set()
    while to_try and len(seen) < DRAWS:
        asked = _Largest(chosen := to_try.popleft())
        with contextlib.suppress(InvalidPoint, ValueError, LookupError):  # they exclude one another
            yield space.suggest(asked)
        for name in (name for name in asked.sizes if name not in seen):
            to_try += [{**chosen, name: index} for index in range(1, asked.sizes[name])]
        seen |= asked.sizes.keys()


def _drawn(space: Space, seed: int) -> Iterator[Point]:
    """Random points."""
    for number in range(DRAWS):
        with contextlib.suppress(InvalidPoint):
            yield space.draw((seed, number))


def _size(point: Point) -> float:
    """By which points are compared: large where all their whole numbers are."""
    numbers = (value for value in point.params.values() if isinstance(value, int) and value > 0)
    return math.prod(math.log1p(number) for number in numbers)
