"""The problems of `benchmarks.search` with a second objective, and the hypervolume of a front."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks._problems import Curve, Problem

POINTS = 0.2
"""Of accuracy below the best, from which on a trial counts nothing."""
SECOND = "cost"
"""The second objective."""


@dataclass(frozen=True)
class Weighed:
    """A problem with a second objective."""

    problem: Problem

    def curve(self, params: Mapping[str, Any]) -> Curve:
        from benchmarks._problems import Curve

        curve = self.problem.curve(params)
        return Curve(curve.point, curve.scores, curve.seconds, {SECOND: self._cost(params, curve)})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.problem, name)

    @cached_property
    def best(self) -> float:
        """The best known accuracy."""
        from benchmarks import curves, lcbench

        if self.problem.family == "lcbench":
            return float(lcbench.tasks()["best"][self.problem.params["task"]])
        return max(curves.load().qualities.values())

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The least and the largest second objective in the space."""
        from benchmarks import curves

        if self.problem.family == "lcbench":
            return _log_weights(64, 1), _log_weights(1024, 5)
        costs = [_mean(seconds) for seconds in curves.load().seconds.values()]
        return min(costs), max(costs)

    def _cost(self, params: Mapping[str, Any], curve: Curve) -> float:
        if self.problem.family == "lcbench":
            return _log_weights(params["max_units"], params["num_layers"])
        return _mean(curve.seconds)

    def corner(self, score: float, cost: float) -> tuple[float, float]:
        """Two losses, 0 the best and 1 the worst that counts."""
        low, high = self.ends
        return (self.best - score) / POINTS, (cost - low) / (high - low)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _log_weights(max_units: float, num_layers: int) -> float:
    """Of LCBench's MLPs, whose layers become narrower as a funnel: the logarithm of their weights."""
    units = [max_units - (max_units - 2) * place / num_layers for place in range(num_layers + 1)]
    return math.log10(sum(one * other for one, other in itertools.pairwise(units)))


def hypervolume(corners: Sequence[tuple[float, float]]) -> float:
    """The share of the unit square that points dominate, smaller is better."""
    area, lowest = 0.0, 1.0
    for first, second in sorted((max(0.0, a), max(0.0, b)) for a, b in corners):
        if first < 1 and second < lowest:
            area += (1 - first) * (lowest - second)
            lowest = second
    return area
