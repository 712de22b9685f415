"""Successive halving in which trials wait: of those at a rung, the best ones continue as others arrive.

Li et al., 2020, https://arxiv.org/abs/1810.05934, as published; `search/promotions.py` says how it decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from ray.tune.schedulers import TrialScheduler

from sweeps.common.formatting import count
from sweeps.common.objective import Losses
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.search import promotions
from sweeps.search.cohorts import Cohort
from sweeps.search.pausing_scheduler import PausingScheduler
from sweeps.search.promotions import Promotions, trials_at_rungs
from sweeps.search.rungs import rungs

TAKES_OBJECTIVES = True


def build(config: SweepConfig, record: Record) -> TrialScheduler:
    """Successive halving over the rungs of the config, judging by the record."""
    return Halving(config, record)


def describe(config: SweepConfig) -> str:
    if not (judged := rungs(config)):
        return f"halving: no rung before the end at {count(config.max_epochs, 'epoch')}, so nothing is pruned"
    first, *others = trials_at_rungs(config, config.num_trials or 1)
    if first == 1:
        return f"halving: a single trial, which trains to epoch {config.max_epochs}"
    further = [
        f"{'one' if more == 1 else more} to epoch {end}"
        for more, end in zip(others, [*judged[1:], config.max_epochs], strict=True)
    ]
    most = promotions.most_waiting(config)
    waiting = f"at most {most} {'waits' if most == 1 else 'wait'} at a time, each with its checkpoint on disk"
    best = f"of them the best {', '.join(further)}, chosen as they arrive"
    return f"halving: {first} trials to epoch {judged[0]}, {best}; {waiting}"


def ends_at(config: SweepConfig, record: Record, number: int, epoch: int) -> bool:
    """Whether a trial was stopped at this epoch, the last that it reported."""
    return Promotions.of(config, record).decision(number, epoch) == "STOP"


def waits_at(config: SweepConfig, record: Record, number: int, epoch: int) -> bool:
    """Whether a trial is paused at this epoch, the last that it reported."""
    return Promotions.of(config, record).decision(number, epoch) == "PAUSE"


def most_waiting(config: SweepConfig, running: int) -> int:
    """Trials that are paused at a time, at most, however many train."""
    return promotions.most_waiting(config)


def cohorts(config: SweepConfig, planned_trials: Sequence[int]) -> list[Cohort]:
    """All trials, of which exactly so many continue at each rung."""
    ends, trials = (*rungs(config), config.max_epochs), planned_trials[-1]
    return [Cohort(0, ends, tuple(trials_at_rungs(config, trials)), waits=True)]


class Halving(PausingScheduler):
    """Pauses a trial at a rung until its turn comes."""

    continues_first = True

    def decide(self, number: int, epoch: int, losses: Losses | None = None) -> str:
        return Promotions.of(self._config, self._record).decision(number, epoch, losses)
