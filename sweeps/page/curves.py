"""Small curves in tables, as points of a line of SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

MARGIN = 2.0
"""Of the line to the edge, in pixels."""


@dataclass(frozen=True)
class Frame:
    """The axes of small curves that are to be compared."""

    across: tuple[float, float]
    """First and last value that is drawn."""
    up: tuple[float, float]
    """Lowest and highest value; a point beyond is drawn at the edge."""
    width: int
    """In pixels."""
    height: int

    def points(self, curve: Iterable[tuple[float, float]]) -> str:
        """The points of a line through finite points, for `<polyline points>`."""
        found = [(self._x(x), self._y(y)) for x, y in curve if math.isfinite(y)]
        if len(found) == 1:  # a line of one point is not drawn
            found.append((found[0][0] + 3, found[0][1]))
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in found)

    def _x(self, at: float) -> float:
        return MARGIN + (self.width - 2 * MARGIN) * _share(at, *self.across)

    def _y(self, at: float) -> float:
        return self.height - MARGIN - (self.height - 2 * MARGIN) * _share(at, *self.up)


def _share(at: float, low: float, high: float) -> float:
    """How far a value is between two others, from 0 to 1."""
    return min(1.0, max(0.0, (at - low) / (high - low))) if high > low else 0.5
