"""Of many results, those that a model of all rungs is fitted to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def representatives(points: Array, epochs: Array, most: int) -> list[int]:
    """At most so many results, ascending. Each rung has an equal share; what one does not need goes to those
    below. So bad trials, which are scored at the first rung alone, stay known.

    Args:
        points: [results, features], in the order of the reports at each rung.
        epochs: [results].
        most: number of results.
    """
    found: list[int] = []
    for below, epoch in reversed([*enumerate(np.unique(epochs))]):
        rows, share = np.flatnonzero(epochs == epoch), (most - len(found)) // (below + 1)
        chosen = range(len(rows)) if len(rows) <= share else _spread(points[rows], share)
        found += rows[chosen].tolist()
    return sorted(found)


def _spread(points: Array, count: int) -> list[int]:
    """Half are the last ones; each of the others is the furthest from all that were chosen before it."""
    found: list[int] = []
    distances = np.full(len(points), np.inf)
    for nth in range(count):
        row = len(points) - 1 - nth if nth < count // 2 else int(distances.argmax())
        found.append(row)
        away = points - points[row]
        distances = np.minimum(distances, np.einsum("ij,ij->i", away, away))
    return found
