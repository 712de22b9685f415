"""Random search: every knob drawn from its domain, by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.searchers._searcher import RecordSearcher
from sweeps.space.point import Point, Refused, Space
from sweeps.space.tune_domains import Form

TAKES: frozenset[Form] = frozenset(
    {"finite", "continuous", "normal", "sample_from", "conditional", "several"}
)
SCHEDULERS = ("asha", "hyperband", "none")
DRAWS = 200
"""Draws before a space counts as exhausted."""


def build(config: SweepConfig, space: Space, record: Record) -> RecordSearcher:
    """Seeded random search."""
    return RecordSearcher(record, space, lambda number: draws(space, config.seed, number), config)


def draws(space: Space, seed: int, number: int) -> Iterator[Point]:
    """Candidates for the trial of a number: random draws, then the rest of a small space."""
    for attempt in range(DRAWS):
        with contextlib.suppress(Refused):
            yield space.draw((seed, number, attempt))
    if space.size() <= DRAWS * DRAWS:
        yield from space.grid()
