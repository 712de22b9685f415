"""Grid search: every point of a finite space; the last hyperparameter changes fastest."""

from __future__ import annotations

import random
from collections.abc import Iterator

from sweeps.common.errors import UserError
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.search.search_method import SearchMethod
from sweeps.space.point import Point, Space

MOST_POINTS = 100_000


class Searcher(SearchMethod):
    """The whole grid in order, or, with fewer trials than points, a seeded sample of it.

    The sample for more trials contains the sample for fewer: when --num-trials is raised, the rest follows.
    Trials outside the grid (of other ranges, or the defaults) take the places of its last points.
    """

    TAKES = frozenset({"grid_search", "finite", "several"})
    SCHEDULERS = ("halving", "asha", "none")
    TAKES_OBJECTIVES = True
    AVOIDS_INFEASIBLE = False

    def __init__(self, config: SweepConfig, space: Space, record: Record) -> None:
        super().__init__(config, space, record)
        self._points = list(space.grid())
        self._wholes = [point.whole for point in self._points]
        self._earlier = {trial.point.whole for trial in record.earlier.trials if trial.status != "failed"}
        self._order = random.Random(config.seed).sample(range(len(self._points)), len(self._points))

    @classmethod
    def check(cls, space: Space) -> None:
        if space.size() > MOST_POINTS:
            raise UserError(
                f"--searcher grid: the space has {space.size():,} points, at most {MOST_POINTS:,}; "
                "take coarser steps or --searcher random"
            )

    def propose(self, number: int) -> Iterator[Point]:
        """The points for the trials that are still to begin; there are more once that number was raised."""
        default = self.config.num_trials or len(self._points)
        planned = next(reversed(self.record.planned_trials), default)
        searched = self.record.searched
        tried = self._earlier | {trial.point.whole for trial in searched}
        fresh = [position for position in self._order if self._wholes[position] not in tried]
        left = sorted(fresh[: planned - len(searched)])
        return iter([self._points[position] for position in left])
