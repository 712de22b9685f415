"""The order of trials by one or several objectives: fronts of non-dominated ones, spread by an epsilon-net.

A point dominates another one that is nowhere better than it, and somewhere worse. What none dominates is the
first front, what then none of the rest dominates the second one (Deb et al., 2002, NSGA-II). Within a front,
the knee is first, and each next one is the furthest from all before it: an epsilon-net, as in Schmucker et
al., 2021, https://arxiv.org/abs/2106.12639. With one objective this is the order by its value.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """Positions of points, [points, objectives], by front, ascending in each.

    In lexical order no point dominates one before it, so each belongs to the first front of which none
    dominates it (Zhang et al., 2015, https://doi.org/10.1109/TEVC.2014.2308305).
    """
    found: list[list[int]] = []
    for row in np.lexsort(losses.T[::-1]):
        point = losses[row]
        low, high = 0, len(found)
        while low < high:  # a front that does not dominate it has none after it that does
            middle = (low + high) // 2
            if _is_dominated(point, losses[found[middle]]):
                low = middle + 1
            else:
                high = middle
        if low == len(found):
            found.append([])
        found[low].append(int(row))
    return [sorted(front) for front in found]


def _is_dominated(point: Array, others: Array) -> bool:
    """Whether one of others is nowhere worse than a point and somewhere better."""
    nowhere_worse = (others <= point).all(axis=1)
    return bool((nowhere_worse & (others < point).any(axis=1)).any())


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
