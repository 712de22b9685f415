"""Hyperband: brackets of trials that wait for each other at each rung, where the best continue.

Li et al., 2018, https://arxiv.org/abs/1603.06560. A band has one bracket per first rung: the widest starts at
--grace-epochs, the narrowest has no rung. The bracket of a trial follows from its number, and its decisions
from the record: a rung is decided when all trials of the bracket have reported it or ended before, and a
decision never changes.

Fills and halves its brackets as Ray's HyperBandForBOHB does (the widest first; trials also wait before their
bracket is full; a test compares them), with three differences: the first rung is --grace-epochs and the
others are whole multiples of it (Ray's truncated powers lose one for 243 / 3); a bracket replaces no trial
that ended (Ray's do, at any rung); and all is read from the record, so brackets survive the driver (after a
restore, Ray's start again, and end trials at epochs that are not rungs, ray#30838).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from sweeps.common.formatting import count
from sweeps.common.objective import Losses
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.pareto import BestFirst
from sweeps.record.record import Record
from sweeps.search.record_scheduler import Decision, PruningMethod
from sweeps.search.rungs import Cohort, nothing_is_pruned, rungs


class Scheduler(PruningMethod):
    """Pauses a trial at a rung until its whole bracket has reached it, then continues the best ones."""

    PAUSES = True
    NAME: ClassVar[str] = "hyperband"
    """For the plan."""

    def __init__(self, config: SweepConfig, record: Record) -> None:
        super().__init__(config, record)
        self._decided: dict[tuple[int, int], list[int]] = {}
        """First trial of a bracket, and rung, to the trials that continue there."""

    @classmethod
    def describe(cls, config: SweepConfig) -> str:
        *pruned, (unpruned, _) = band(config)
        if not pruned:
            return f"{cls.NAME}: {nothing_is_pruned(config)}"
        sizes = [f"{count(size, 'trial')} with rungs from epoch {judged[0]}" for size, judged in pruned]
        return (
            f"{cls.NAME}: brackets of {', '.join(sizes)}, {unpruned} without (all train {config.max_epochs} "
            f"epochs); at each rung the best 1/{config.reduction_factor} of a bracket continue"
        )

    @classmethod
    def cohorts(cls, config: SweepConfig, planned_trials: Sequence[int]) -> list[Cohort]:
        """The brackets, of which exactly so many trials continue at each rung."""
        found: list[Cohort] = []
        nth = 0
        while nth < planned_trials[-1]:
            found.append(bracket := bracket_of(config, planned_trials, nth))
            nth = bracket.first + bracket.size
        return found

    @classmethod
    def most_waiting(cls, config: SweepConfig, running: int) -> int:
        """New trials come first, so of each bracket those that its first rung promotes may wait; and all of
        one that is not decided there: it is filled now, or waits for a trial that trains."""
        cohorts = cls.cohorts(config, [config.num_trials or 0])
        waiting = [(bracket.size, round(bracket.reach[1])) for bracket in cohorts if bracket.rungs]
        undecided = sorted((whole - promoted for whole, promoted in waiting), reverse=True)[: running + 1]
        return sum(promoted for _, promoted in waiting) + sum(undecided)

    def decide(self, number: int, epoch: int, losses: Losses | None = None) -> Decision:
        bracket = bracket_of(self.config, self.record.planned_trials, self.record.nth(number))
        is_scored = losses is not None or number in self.record.losses_at(epoch)
        if epoch not in bracket.rungs or not is_scored:
            return "CONTINUE"
        promoted = self._promoted(bracket, epoch, number, losses)
        if promoted is None:
            return "PAUSE"
        return "CONTINUE" if number in promoted else "STOP"

    def _promoted(
        self, bracket: Cohort, epoch: int, reporting: int, losses: Losses | None
    ) -> list[int] | None:
        """The trials that continue after a rung; None while some have not reached it. One reports it now."""
        if bracket.first + bracket.size > len(self.record.searched):
            return None
        entrants = [t.number for t in self.record.searched[bracket.first : bracket.first + bracket.size]]
        for rung, kept in zip(bracket.rungs, bracket.reach[1:], strict=True):
            if (bracket.first, rung) not in self._decided:
                at_rung, order = self.record.losses_at(rung), BestFirst()
                if rung == epoch and losses is not None:
                    at_rung = {reporting: losses, **at_rung}
                for number in reversed(entrants):  # the last ones proposed are mostly the missing ones
                    if number in at_rung:
                        order.add(number, at_rung[number])
                    elif self.record.trials[number].status == "unfinished":
                        return None
                self._decided[bracket.first, rung] = order.first(round(kept))
            entrants = self._decided[bracket.first, rung]
            if rung == epoch:
                return entrants
        raise AssertionError(f"{epoch} is no rung of {bracket}")


def band(config: SweepConfig) -> list[tuple[int, tuple[int, ...]]]:
    """Size and rungs of each bracket of a band, the widest first.

    Sizes as in the paper and in Ray (not hpbandster: automl/HpBandSter#113): with n first rungs,
    ceil(n / (s + 1) * factor^s) for the bracket with s rungs.
    """
    judged, factor = rungs(config), config.reduction_factor
    most = len(judged)
    return [
        (-(-(most + 1) * factor**times // (times + 1)), tuple(judged[most - times :]))
        for times in range(most, -1, -1)
    ]


def bracket_of(config: SweepConfig, planned_trials: Sequence[int], nth: int) -> Cohort:
    """The bracket of a trial.

    Args:
        config: max_epochs, grace_epochs and reduction_factor.
        planned_trials: number of trials, each time that it was raised. A larger number begins a new band, so
            that no decided bracket gets more trials.
        nth: position of the trial among the searched ones, from 0.
    """
    first, last = 0, nth + 1
    for last in planned_trials:
        if nth < last:
            break
        first = last
    whole = band(config)
    width = sum(size for size, _ in whole)
    first += (nth - first) // width * width
    for size, judged in whole:
        if nth < first + size:
            reach = [min(size, max(last, nth + 1) - first)]
            for _ in judged:
                reach.append(math.ceil(reach[-1] / config.reduction_factor))
            return Cohort(first, (*judged, config.max_epochs), tuple(reach), waits=True)
        first += size
    raise AssertionError(f"trial {nth} is in no bracket of {whole}")
