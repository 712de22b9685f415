"""Grid search: every point of a finite space; the last hyperparameter changes fastest."""

from __future__ import annotations

import random

from sweeps.common.errors import UserError
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.search.record_searcher import RecordSearcher
from sweeps.space.domain import Form
from sweeps.space.point import Space

TAKES: frozenset[Form] = frozenset({"grid_search", "finite", "several"})
SCHEDULERS = ("halving", "asha", "none")
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
    if config.num_trials is not None and config.num_trials < len(points):
        order = random.Random(config.seed).sample(range(len(points)), len(points))
        points = [points[position] for position in sorted(order[: config.num_trials])]
    tried = {trial.point.key for trial in record.searched}
    rest = iter([point for point in points if point.key not in tried])
    return RecordSearcher(record, space, lambda number: rest, config)
