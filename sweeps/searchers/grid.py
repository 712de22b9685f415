"""Grid search: every point of a finite space; the last hyperparameter changes fastest."""

from __future__ import annotations

import random
from collections.abc import Iterator

from sweeps.common.errors import UserError
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.search.record_searcher import RecordSearcher
from sweeps.space.domain import Form
from sweeps.space.point import Point, Space

TAKES: frozenset[Form] = frozenset({"grid_search", "finite", "several"})
SCHEDULERS = ("halving", "asha", "none")
TAKES_OBJECTIVES = True
MOST_POINTS = 100_000


def check(space: Space) -> None:
    """Refuse a grid with too many points, as a UserError."""
    if space.size() > MOST_POINTS:
        raise UserError(
            f"--searcher grid: the space has {space.size():,} points, at most {MOST_POINTS:,}; "
            "take coarser steps or --searcher random"
        )


def build(config: SweepConfig, space: Space, record: Record) -> RecordSearcher:
    """The whole grid in order, or, with fewer trials than points, a seeded sample of it.

    The sample for more trials contains the sample for fewer: when --num-trials is raised, the rest follows.
    """
    points = list(space.grid())
    order = random.Random(config.seed).sample(range(len(points)), len(points))

    to_come: dict[int, Iterator[Point]] = {}  # no functools.cache: Tune pickles the searcher

    def rest(num_trials: int) -> Iterator[Point]:
        tried = {trial.point.key for trial in record.searched}
        asked = range(len(points)) if num_trials >= len(points) else sorted(order[:num_trials])
        return iter([points[position] for position in asked if points[position].key not in tried])

    def propose(number: int) -> Iterator[Point]:
        """The points for so many trials as are planned now; there are more once that number was raised."""
        planned = next(reversed(record.planned_trials), config.num_trials or len(points))
        if planned not in to_come:
            to_come[planned] = rest(planned)
        return to_come[planned]

    return RecordSearcher(record, space, propose, config)
