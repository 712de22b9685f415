"""Random search: every hyperparameter is drawn from its domain independently."""

from __future__ import annotations

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.search.candidates import random_points
from sweeps.search.record_searcher import RecordSearcher
from sweeps.space.domain import Form
from sweeps.space.point import Space

TAKES: frozenset[Form] = frozenset(
    {"finite", "continuous", "normal", "sample_from", "conditional", "several"}
)
SCHEDULERS = ("halving", "asha", "hyperband", "none")
TAKES_OBJECTIVES = True


def build(config: SweepConfig, space: Space, record: Record) -> RecordSearcher:
    """Seeded random search."""
    return RecordSearcher(record, space, lambda number: random_points(space, config.seed, number), config)
