"""Random search: every hyperparameter is drawn from its domain independently."""

from __future__ import annotations

from collections.abc import Iterator

from sweeps.search.search_method import SearchMethod
from sweeps.space.point import Point


class Searcher(SearchMethod):
    """Seeded random search."""

    TAKES = frozenset({"finite", "continuous", "normal", "sample_from", "conditional", "several"})
    TAKES_OBJECTIVES = True
    AVOIDS_INFEASIBLE = False

    def propose(self, number: int) -> Iterator[Point]:
        return self.random_points(number)
