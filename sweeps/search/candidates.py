"""Draws from a search space, and the fidelity that a model is fitted to."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from sweeps.record.record import Record
from sweeps.space.point import InvalidPoint, Point, Space

DRAWS = 200
"""Draws before a space counts as exhausted."""


def draws(space: Space, seed: int, number: int) -> Iterator[Point]:
    """Candidates for the trial of a number: random draws, then the rest of a small space."""
    for attempt in range(DRAWS):
        with contextlib.suppress(InvalidPoint):
            yield space.draw((seed, number, attempt))
    if space.size() <= DRAWS * DRAWS:
        yield from space.grid()


def model_fidelity(record: Record, fidelities: list[int], enough: int) -> int | None:
    """The highest of the epochs that `enough` trials have reached, those of earlier sweeps too; None while
    there is none."""
    before = Counter(epoch for trial in record.earlier.trials for epoch in trial.epochs)
    return next((e for e in fidelities if len(record.scores_at(e)) + before[e] >= enough), None)
