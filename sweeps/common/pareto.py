"""The order of trials by one or several objectives: fronts of non-dominated ones, spread by an epsilon-net.

A point dominates another one that is nowhere better than it, and somewhere worse. What none dominates is the
first front, what then none of the rest dominates the second one (Deb et al., 2002, NSGA-II). Within a front,
the knee is first, and each next one is the furthest from all before it: an epsilon-net, as in Schmucker et
al., 2021, https://arxiv.org/abs/2106.12639. With one objective this is the order by its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import itemgetter

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
    found = Fronts()
    for row in np.lexsort(losses.T[::-1]):  # so none falls back: no point dominates one before it
        found.add(int(row), losses[row])
    return [front.numbers.tolist() for front in found.every]


class Front:
    """Points of which none dominates another.

    Args:
        numbers: [points], ascending.
        losses: [points, objectives].
    """

    def __init__(self, numbers: npt.NDArray[np.int64], losses: Array) -> None:
        self.numbers, self.losses = numbers, losses

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def best_first(self) -> list[int]:
        """The numbers, the knee first; of equal points the lower number is first."""
        found: list[int] = self.numbers[_spread(self.losses)].tolist()
        return found

    def where(self, chosen: npt.NDArray[np.bool_]) -> Front:
        """Those of its points that are chosen."""
        return Front(self.numbers[chosen], self.losses[chosen])

    def joined(self, other: Front) -> Front:
        """The points of both."""
        numbers = np.concatenate([self.numbers, other.numbers])
        order = numbers.argsort()
        return Front(numbers[order], np.concatenate([self.losses, other.losses])[order])


class Fronts:
    """The fronts of points that come one by one, in any order.

    A new point belongs to the first front of which none dominates it (Zhang et al., 2015,
    https://doi.org/10.1109/TEVC.2014.2308305). Those of this front that it dominates fall to the next one,
    and so do those there that they dominate (Li et al., 2017, https://doi.org/10.1109/TCYB.2016.2621008).
    """

    def __init__(self) -> None:
        self.every: list[Front] = []
        """The first one first; none is empty."""

    def add(self, number: int, losses: Array) -> None:
        """Add a point.

        Args:
            number: that no other point has.
            losses: [objectives].
        """
        coming = Front(np.array([number]), losses[None])
        for place in range(self.place(losses), len(self.every)):
            front = self.every[place]
            falls = _are_dominated(front.losses, coming.losses)
            if not falls.any():
                self.every[place] = front.joined(coming)
                return
            self.every[place] = front.where(~falls).joined(coming)
            coming = front.where(falls)
        self.every.append(coming)

    def place(self, losses: Array) -> int:
        """Position of the front to which a point, [objectives], belongs, or would belong."""
        low, high = 0, len(self.every)
        while low < high:  # a front that does not dominate it has none after it that does
            middle = (low + high) // 2
            if _are_dominated(losses[None], self.every[middle].losses)[0]:
                low = middle + 1
            else:
                high = middle
        return low

    def front_with(self, number: int, losses: Array) -> Front:
        """The front of a point, if it were added; the same where it was."""
        own, place = Front(np.array([number]), losses[None]), self.place(losses)
        if place == len(self.every):
            return own
        front = self.every[place]
        falls = _are_dominated(front.losses, own.losses)
        return front.where(~falls & (front.numbers != number)).joined(own)


def _are_dominated(points: Array, others: Array) -> npt.NDArray[np.bool_]:
    """[points], whether one of others is nowhere worse than each and somewhere better.

    Args:
        points: [points, objectives].
        others: [others, objectives].
    """
    points = points[:, None]
    dominates = np.all(others <= points, axis=2) & np.any(others < points, axis=2)
    found: npt.NDArray[np.bool_] = np.any(dominates, axis=1)
    return found


def knee(losses: Array) -> int:
    """The position of the knee of a front: the point whose losses, each in units of its range on the front,
    are least in sum. Where the front bends towards the best values, it is the point furthest from the plane
    through its ends (Das, 1999, https://doi.org/10.1007/s001580050111). Of equals, the one with the best
    first objective."""
    sums = np.round(_scaled(losses).sum(axis=1), 9)
    return int(np.lexsort((losses[:, 0], sums))[0])


def _spread(losses: Array) -> list[int]:
    """Positions of the points of a front: the knee, then an epsilon-net."""
    scaled, order = _scaled(losses), [knee(losses)]
    distances = np.full(len(losses), np.inf)
    while len(order) < len(losses):
        last = scaled[order[-1]]
        distances = np.minimum(distances, np.linalg.norm(scaled - last, axis=1))
        distances[order[-1]] = -1.0  # equal points are at a distance of 0
        order.append(int(distances.argmax()))
    return order


def _scaled(losses: Array) -> Array:
    """Each objective from 0 to 1."""
    low, high = losses.min(axis=0), losses.max(axis=0)
    scaled: Array = (losses - low) / np.where(high > low, high - low, 1.0)
    return scaled


def priorities(losses: Sequence[Losses]) -> Array:
    """[points], a number of each, larger is better: by one objective its value, else its place."""
    if len(losses[0]) == 2:  # two passes are faster than an array of tuples
        missed, own = (np.fromiter(map(itemgetter(n), losses), float, len(losses)) for n in (0, 1))
        if not missed.any():
            return -own
    points = np.array(losses)
    places = np.empty(len(points))
    places[[row for front in best_first(points) for row in front]] = np.arange(len(points))
    return -places
