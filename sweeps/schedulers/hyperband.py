"""Hyperband: brackets of trials that wait for each other at each rung, where the best continue.

Li et al., 2018, https://arxiv.org/abs/1603.06560. Fills and halves its brackets as Ray's
HyperBandForBOHB does (the widest first; trials also wait before their bracket is full; a test compares
them), with three differences: the first rung is --grace-epochs and the others are whole multiples of it
(Ray's truncated powers lose one for 243 / 3); a bracket replaces no trial that ended (Ray's do, at any
rung); and all is read from the record, so brackets survive the driver (after a restore, Ray's start
again, and end trials at epochs that are not rungs, ray#30838).
"""

from __future__ import annotations

from collections.abc import Sequence

from ray.tune.schedulers import TrialScheduler

from sweeps.common.formatting import count
from sweeps.common.objective import Losses
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.search import brackets
from sweeps.search.cohorts import Cohort
from sweeps.search.pausing_scheduler import PausingScheduler


def build(config: SweepConfig, record: Record) -> TrialScheduler:
    """Hyperband over the rungs of the config, judging by the record."""
    return Hyperband(config, record)


def describe(config: SweepConfig) -> str:
    return f"hyperband: {in_words(config)}"


def in_words(config: SweepConfig) -> str:
    """The brackets, for the plan."""
    *pruned, (unpruned, _) = brackets.band(config)
    if not pruned:
        return f"no rung before the end at {count(config.max_epochs, 'epoch')}, so nothing is pruned"
    sizes = [f"{count(size, 'trial')} with rungs from epoch {judged[0]}" for size, judged in pruned]
    return (
        f"brackets of {', '.join(sizes)}, {unpruned} without (all train {config.max_epochs} epochs); "
        f"at each rung the best 1/{config.reduction_factor} of a bracket continue"
    )


def ends_at(config: SweepConfig, record: Record, number: int, epoch: int) -> bool:
    """Whether a trial was stopped at this epoch, the last that it reported."""
    return number in record.scores_at(epoch) and brackets.decision(config, record, number, epoch) == "STOP"


def waits_at(config: SweepConfig, record: Record, number: int, epoch: int) -> bool:
    """Whether a trial is paused at this epoch, the last that it reported."""
    return number in record.scores_at(epoch) and brackets.decision(config, record, number, epoch) == "PAUSE"


most_waiting = brackets.most_waiting


def cohorts(config: SweepConfig, planned_trials: Sequence[int]) -> list[Cohort]:
    """The brackets, of which exactly so many trials continue at each rung."""
    return [
        Cohort(
            bracket.first,
            (*bracket.rungs, config.max_epochs),
            tuple(bracket.kept(config.reduction_factor)),
            waits=True,
        )
        for bracket in brackets.all_brackets(config, planned_trials)
    ]


class Hyperband(PausingScheduler):
    """Pauses a trial at a rung until its whole bracket has reached it, then continues the best ones."""

    def decide(self, number: int, epoch: int, losses: Losses | None = None) -> str:
        return brackets.decision(self._config, self._record, number, epoch, losses)
