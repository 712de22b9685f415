"""Which trials a scheduler ranks against each other, and how many of them it lets train how far.

The plan counts the epochs of a sweep by this, and `execution/output/time_left.py` those that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from sweeps.config.sweep_config import SweepConfig


@dataclass(frozen=True)
class Cohort:
    """Trials that are ranked against each other."""

    first: int
    """Position of its first trial among the searched trials, from 0; the others follow it."""
    ends: tuple[int, ...]
    """The epochs of its rungs, and the last epoch."""
    reach: tuple[float, ...]
    """How many trials train to each of these, when none fails."""
    waits: bool = False
    """Whether a trial waits at a rung for others, so that exactly as many continue; else each is judged by
    those that came before it, so the numbers are expectations."""

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
