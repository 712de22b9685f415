"""Hyperband: brackets of trials that wait for each other at each rung, where the best continue.

Li et al., 2018, https://arxiv.org/abs/1603.06560. A band has one bracket per first rung: the widest starts at
--grace-epochs, the narrowest has no rung. The bracket of a trial follows from its number, and its decisions
from the record: a rung is decided when all trials of the bracket have reported it or ended before, and a
decision never changes. A trial that is opened again after that (the record has of each attempt which rungs
were decided when it began) comes late, and continues if it is among as many best ones, with all that came
before it.

Fills and halves its brackets as Ray's HyperBandForBOHB does (the widest first; trials also wait before their
bracket is full; a test compares them), with three differences: the first rung is --grace-epochs and the
others are whole multiples of it (Ray's truncated powers lose one for 243 / 3); a bracket replaces no trial
that ended (Ray's do, at any rung); and all is read from the record, so brackets survive the driver (after a
restore, Ray's start again, and end trials at epochs that are not rungs, ray#30838).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from sweeps.common.formatting import count
from sweeps.common.objective import Losses
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.pareto import BestFirst
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.search.record_scheduler import Decision, PruningMethod
from sweeps.search.rungs import Cohort, nothing_is_pruned, rungs


class Decided(NamedTuple):
    """What was decided at a rung."""

    rung: int
    """Its epoch."""
    entrants: Sequence[int]
    """Numbers of the trials that were to come to it."""
    promoted: Sequence[int]
    """Of those that continue; of none, where none has come."""


class Scheduler(PruningMethod):
    """Pauses a trial at a rung until its whole bracket has reached it, then continues the best ones."""

    PAUSES = True
    NAME: ClassVar[str] = "hyperband"
    """For the plan."""

    def __init__(self, config: SweepConfig, record: Record) -> None:
        super().__init__(config, record)
        self._promoted: dict[tuple[int, int], Sequence[int]] = {}
        """By the first trial of a bracket, and rung."""

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
        bracket = self._bracket_of(number)
        is_new = number not in self.record.losses_at(epoch)
        if epoch not in bracket.rungs or (is_new and losses is None):
            return "CONTINUE"
        now = {number: losses} if is_new and losses is not None else {}
        at_rung = (each for each in self._decisions(bracket, {epoch: now}) if each.rung == epoch)
        if (decided := next(at_rung, None)) is None:
            return "PAUSE"
        if number in decided.promoted:
            return "CONTINUE"
        is_late = number not in decided.entrants or epoch in self._row_at(number, epoch).decided_rungs
        return "CONTINUE" if is_late and self._is_among_best(bracket, epoch, number, losses) else "STOP"

    def decided_rungs(self, number: int) -> list[int]:
        return [each.rung for each in self._decisions(self._bracket_of(number)) if each.promoted]

    def _bracket_of(self, number: int) -> Cohort:
        return bracket_of(self.config, self.record.planned_trials, self.record.nth(number))

    def _decisions(
        self, bracket: Cohort, now: Mapping[int, Mapping[int, Losses]] = MappingProxyType({})
    ) -> Iterator[Decided]:
        """What is decided at each rung of a bracket, up to the first one that some trials have not reached.

        Args:
            bracket: of which all trials have begun, else nothing is decided.
            now: by rung, what trials report there now.
        """
        if bracket.first + bracket.size > len(self.record.searched):
            return
        entrants: Sequence[int] = _numbers(self.record, bracket)
        for rung, kept in zip(bracket.rungs, bracket.reach[1:], strict=True):
            if (key := (bracket.first, rung)) not in self._promoted:
                if (losses := self._losses_of_all(entrants, rung, now.get(rung, {}))) is None:
                    return
                if found := BestFirst(losses).first(round(kept)):
                    self._promoted[key] = found
            promoted = self._promoted.get(key, ())
            yield Decided(rung, entrants, promoted)
            entrants = promoted

    def _losses_of_all(
        self, entrants: Sequence[int], rung: int, now: Mapping[int, Losses]
    ) -> Mapping[int, Losses] | None:
        """By number, of those that have come to a rung, in the order of `entrants`; None while one may still
        come. Late attempts do not count."""
        rows = {number: self._rows(number) for number in entrants}
        in_time = [each[-1] for each in rows.values() if rung not in each[-1].decided_rungs]
        if any(r.status == "unfinished" and rung not in r.epochs and r.number not in now for r in in_time):
            return None
        arrivals = (each for each in self.record.arrivals_at(rung) if each.number in rows)
        came = {a.number: a.losses for a in arrivals if rung not in rows[a.number][a.attempt].decided_rungs}
        came |= {row.number: now[row.number] for row in in_time if row.number in now}
        return {number: came[number] for number in entrants if number in came}

    def _rows(self, number: int) -> list[TrialRow]:
        """The attempts of a trial."""
        trial = self.record.trials[number]
        return [*trial.attempts, trial]

    def _row_at(self, number: int, epoch: int) -> TrialRow:
        """The attempt of a trial that has reported an epoch last, or reports it now."""
        if number not in self.record.losses_at(epoch):
            return self.record.trials[number]
        came = (each.attempt for each in self.record.arrivals_at(epoch) if each.number == number)
        return self._rows(number)[max(came)]

    def _is_among_best(self, bracket: Cohort, epoch: int, number: int, losses: Losses | None) -> bool:
        """Whether a trial that comes late is one of as many best as continue, of those that came before."""
        own = self.record.losses_at(epoch).get(number, losses)
        latest = number, self._row_at(number, epoch).attempt
        before = itertools.takewhile(lambda each: each[:2] != latest, self.record.arrivals_at(epoch))
        others = _numbers(self.record, bracket)
        came = {each.number: each.losses for each in before if each.number in others}
        kept = round(bracket.reach[1 + bracket.rungs.index(epoch)])
        return own is not None and number in BestFirst({**came, number: own}).first(kept)


def _numbers(record: Record, bracket: Cohort) -> list[int]:
    """Numbers of the trials of a bracket."""
    return [trial.number for trial in record.searched[bracket.first : bracket.first + bracket.size]]


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
