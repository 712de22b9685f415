"""The order of trials by one or several objectives: fronts of non-dominated ones, spread by an epsilon-net.

A point dominates another one that is nowhere better than it, and somewhere worse. What none dominates is the
first front, what then none of the rest dominates the second one (Deb et al., 2002, NSGA-II). Within a front,
the knee is first, and each next one is the furthest from all before it: an epsilon-net, as in Schmucker et
al., 2021, https://arxiv.org/abs/2106.12639. With one objective this is the order by its value.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from sweeps.common.objective import Losses

Array = npt.NDArray[np.float64]


def best_first(losses: Array) -> list[list[int]]:
    """Positions of points by front, the best first; of equal points the earlier one is first. Points that
    miss a constraint come last, each a front of its own.

    Args:
        losses: [points, 1 + objectives], each row a `Losses`.
    """
    if losses.shape[1] == 2:
        return [[int(row)] for row in np.lexsort(losses.T[::-1])]
    sound = np.flatnonzero(losses[:, 0] == 0)
    found = [
        [int(sound[front[place]]) for place in _spread(losses[sound[front], 1:])]
        for front in fronts(losses[sound, 1:])
    ]
    return found + [[int(row)] for row in np.argsort(losses[:, 0], kind="stable") if losses[row, 0] != 0]


def fronts(losses: Array) -> list[list[int]]:
    """Positions of points, [points, objectives], by front, ascending in each."""
    order = np.lexsort(losses.T[::-1])  # so no point dominates one before it
    points, places = losses[order], np.zeros(len(losses), int)
    for row, point in enumerate(points):
        others = points[:row]
        dominate = np.all(others <= point, axis=1) & np.any(others < point, axis=1)
        places[row] = places[:row][dominate].max(initial=-1) + 1
    return [np.sort(order[places == place]).tolist() for place in range(places.max(initial=-1) + 1)]


def _spread(losses: Array) -> list[int]:
    """Positions of the points of a front: the knee, then an epsilon-net.

    The knee is the point whose losses, each in units of its range on the front, are least in sum. Where the
    front bends towards the best values, it is the point furthest from the plane through its ends (Das, 1999,
    https://doi.org/10.1007/s001580050111). Of equals, the one with the best first objective.
    """
    low, high = losses.min(axis=0), losses.max(axis=0)
    scaled = (losses - low) / np.where(high > low, high - low, 1.0)
    sums = np.round(scaled.sum(axis=1), 9)
    order = [int(np.lexsort((losses[:, 0], sums))[0])]
    distances = np.full(len(losses), np.inf)
    while len(order) < len(losses):
        last = scaled[order[-1]]
        distances = np.minimum(distances, np.linalg.norm(scaled - last, axis=1))
        distances[order[-1]] = -1.0  # equal points are at a distance of 0
        order.append(int(distances.argmax()))
    return order


def priorities(losses: Sequence[Losses]) -> Array:
    """[points], a number of each, larger is better: by one objective its value, else its place."""
    points = np.array(losses)
    if points.shape[1] == 2 and not points[:, 0].any():
        return -points[:, 1]
    places = np.empty(len(points))
    places[[row for front in best_first(points) for row in front]] = np.arange(len(points))
    return -places


class BestFirst:
    """Numbers of trials, the best first, as trials are added."""

    def __init__(self, losses: Mapping[int, Losses] = MappingProxyType({})) -> None:
        self._losses = dict(losses)
        self._ranks = sorted((each, number) for number, each in losses.items() if len(each) == 2)
        """By one objective, all in order: halving asks after each report, of thousands of trials."""
        self._fronts: list[list[int]] | None = None
        """By several objectives, as far as it is known: a new trial may move all others."""

    def __iter__(self) -> Iterator[int]:
        if self._ranks:
            return (number for _, number in self._ranks)
        return itertools.chain.from_iterable(self._known())

    def add(self, number: int, losses: Losses) -> None:
        """Add a trial, which is not there, with finite losses."""
        self._losses[number], self._fronts = losses, None
        if len(losses) == 2:
            bisect.insort(self._ranks, (losses, number))

    def remove(self, number: int) -> None:
        """Remove a trial, if it is there."""
        if (losses := self._losses.pop(number, None)) is not None:
            self._ranks, self._fronts = [each for each in self._ranks if each != (losses, number)], None

    def with_one(self, number: int, losses: Losses) -> BestFirst:
        """The order with another trial."""
        return BestFirst({**self._losses, number: losses})

    def first(self, count: int) -> list[int]:
        """So many of the best."""
        return list(itertools.islice(self, count))

    def front(self) -> list[int]:
        """Those that no other one dominates, the knee first; by one objective the best one alone."""
        return self.first(1) if self._ranks else next(iter(self._known()), [])

    def _known(self) -> list[list[int]]:
        if self._fronts is None:
            numbers = sorted(self._losses)
            found = best_first(np.array([self._losses[number] for number in numbers])) if numbers else []
            self._fronts = [[numbers[row] for row in front] for front in found]
        return self._fronts
