"""What one search over replayed curves is given, whichever program runs it."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks._problems import Problem

GRACE_EPOCHS, REDUCTION_FACTOR = 3, 3


@dataclass(frozen=True)
class Asked:
    """What one search is given."""

    arm: str
    problem: Problem
    seed: int
    slots: int
    """Trials at a time."""
    budget: int
    """Epochs."""
    pace: float = 0.0
    """Seconds that a second of the real training takes here, where Tune runs it."""
