"""Random candidates of a search space, and the fidelity that a model is fitted to."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

import numpy as np

from sweeps.record.record import Record
from sweeps.space.point import InvalidPoint, Point, Space

ATTEMPTS = 200
"""Random points before a space counts as exhausted."""
MODEL_ATTEMPTS = 20
"""Points of a model before a random one is taken instead of a duplicate."""


def random_points(space: Space, seed: int, number: int) -> Iterator[Point]:
    """Candidates for the trial of a number: random points, then the grid of a small space."""
    for attempt in range(ATTEMPTS):
        with contextlib.suppress(InvalidPoint):
            yield space.draw((seed, number, attempt))
    if space.size() <= ATTEMPTS**2:
        yield from space.grid()


def model_seed(seed: int, number: int) -> int:
    """The seed of a model's random numbers for the trial of a number."""
    return int(np.random.SeedSequence((seed, number)).generate_state(1)[0])


def model_fidelity(record: Record, fidelities: list[int], enough: int) -> int | None:
    """The highest of these epochs that `enough` trials have reached, those of earlier sweeps included; None
    while there is none."""
    before = Counter(epoch for trial in record.earlier.trials for epoch in trial.epochs)
    return next((e for e in fidelities if len(record.scores_at(e)) + before[e] >= enough), None)
