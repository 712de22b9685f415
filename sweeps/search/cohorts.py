"""Which trials a scheduler ranks against each other, and how many of them it lets train how far.

The plan counts the epochs of a sweep by this, and `analysis/time_left.py` plays the rest of the sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

from sweeps.config.sweep_config import SweepConfig

Continues = Literal["in turn", "together", "at once"]
"""Who continues after a rung. in turn: so many, each as soon as enough others have come there. together: so
many, when all have come there. at once: each is judged by those that came before it, so the numbers are
expectations."""


@dataclass(frozen=True)
class Cohort:
    """Trials that are ranked against each other."""

    first: int
    """Position of its first trial among the searched trials, from 0; the others follow it."""
    ends: tuple[int, ...]
    """The epochs of its rungs, and the last epoch."""
    reach: tuple[float, ...]
    """How many trials train to each of these, when none fails."""
    continues: Continues = "at once"
    share: float = 1.0
    """In turn: of those that have come to a rung, so many may continue by then. At once: a trial continues
    whose score is in the best such share of those that came before it."""

    @property
    def size(self) -> int:
        """Number of trials."""
        return round(self.reach[0])

    @property
    def spans(self) -> list[int]:
        """Epochs from each rung to the next."""
        return [end - before for before, end in zip((0, *self.ends), self.ends, strict=False)]


def of(scheduler: ModuleType, config: SweepConfig, planned_trials: Sequence[int]) -> list[Cohort]:
    """The cohorts of a sweep; of a scheduler that tells none, one in which every trial trains to the end.

    Args:
        scheduler: which prunes.
        config: max_epochs, grace_epochs and reduction_factor.
        planned_trials: number of trials in each run of the sweep, increasing.
    """
    if hasattr(scheduler, "cohorts"):
        return list(scheduler.cohorts(config, planned_trials))
    return [Cohort(0, (config.max_epochs,), (planned_trials[-1],))]


def expected_epochs(scheduler: ModuleType, config: SweepConfig) -> int:
    """Epochs that all trials of a new sweep train when none fails."""
    cohorts = of(scheduler, config, [config.num_trials]) if config.num_trials else []
    return round(sum(n * span for each in cohorts for n, span in zip(each.reach, each.spans, strict=True)))
