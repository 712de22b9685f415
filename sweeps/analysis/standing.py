"""Where a sweep stands: who trains, who waits and who is to come."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sweeps.analysis.pace import ranks
from sweeps.record.ranking import RankedTrials
from sweeps.record.trials import BAD, TrialRow, Waits
from sweeps.search.cohorts import Cohort


@dataclass(frozen=True)
class Ahead:
    """What is known of the rest of a sweep besides its record."""

    cohorts: Sequence[Cohort]
    slots: int
    """Trials that train at a time."""
    waits: Waits | None = None
    """Whether a trial is paused now; None where none ever is."""
    is_scored: bool = True
    """Whether the winner is scored on test rows at the end."""

    @property
    def planned(self) -> int:
        """Trials of the search."""
        return self.cohorts[-1].first + self.cohorts[-1].size

    @property
    def last_epoch(self) -> int:
        """Of a trial that is never pruned."""
        return self.cohorts[-1].ends[-1]

    @property
    def rungs(self) -> list[int]:
        """All epochs at which trials are judged, and the last one."""
        return sorted({end for cohort in self.cohorts for end in cohort.ends})


@dataclass(frozen=True)
class Seat:
    """A trial that has begun and not ended."""

    trial: TrialRow
    cohort: Cohort
    since_s: float
    """Seconds since its last epoch, or its start, in this run of the sweep."""
    waits: bool = False
    """Whether it is paused at a rung."""
    is_ready: bool = False
    """Whether it continues, but has no slot."""

    @property
    def span(self) -> int:
        """Position of the rung, or the end, that it comes to next."""
        return next(at for at, end in enumerate(self.cohort.ends) if len(self.trial.epochs) < end)


@dataclass(frozen=True)
class OpenCohort:
    """A cohort with trials that have not ended."""

    cohort: Cohort
    to_begin: int
    came: Sequence[int]
    """How many trials came to each rung."""
    further: Sequence[int]
    """How many of them continued."""


class Standing:
    """Where a sweep stands.

    Args:
        record: of the sweep.
        ahead: what is known of its rest.
        now: seconds since 1970.
    """

    def __init__(self, record: RankedTrials, ahead: Ahead, now: float) -> None:
        self.record, self.ahead, self._now = record, ahead, now
        began = [run.started or 0.0 for run in record.info.runs]
        self._run_began = max((moment for moment in began if moment <= now), default=0.0)
        self.ranks: Mapping[int, float] = ranks(record, ahead.rungs)
        waits = ahead.waits
        live = [trial for trial in record.live if trial.confirms is None]
        self._paused = {trial.number for trial in live if waits is not None and waits(trial)}
        self._left = {number for cohort in ahead.cohorts for number in self._left_behind(cohort)}
        self.cohorts = [self._open(cohort) for cohort in ahead.cohorts if self._is_open(cohort)]
        self.seats = self._seated()
        dead = [trial for trial in record.searched if trial.status in BAD]
        self.deaths = [len(trial.epochs) for trial in dead]
        """After how many epochs trials failed or diverged."""

    def since_s(self, trial: TrialRow) -> float:
        """Seconds since its last epoch, or its start, in this run of the sweep."""
        last = max((row.time for row in trial.epochs.values()), default=trial.start)
        return max(0.0, self._now - max(last, self._run_began))

    @property
    def is_searched(self) -> bool:
        """Whether all trials of the search have ended."""
        return not self.seats and len(self.record.searched) >= self.ahead.planned

    @property
    def done(self) -> float:
        """The share of the trials of the search that have ended."""
        return sum(trial.status != "unfinished" for trial in self.record.searched) / self.ahead.planned

    @cached_property
    def leaders(self) -> list[int]:
        """The trials of the search that are the best so far, ended or not, the best one first."""
        return self.record.leaders(len(self.record.searched))

    def _members(self, cohort: Cohort) -> Sequence[TrialRow]:
        return self.record.searched[cohort.first : cohort.first + cohort.size]

    def _left_behind(self, cohort: Cohort) -> Sequence[int]:
        """Trials that no longer wait but are too many to continue: their end is recorded later."""
        found: list[int] = []
        if cohort.continues == "at once":
            return found
        members = self._members(cohort)
        for rung, goes_on in zip(cohort.ends, cohort.reach[1:], strict=False):
            there = [
                trial.number
                for trial in members
                if trial.status == "unfinished"
                and len(trial.epochs) == rung
                and trial.number not in self._paused
            ]
            further = sum(len(trial.epochs) > rung for trial in members)
            there.sort(key=lambda number: self.ranks.get(number, 0.5))
            found += there[max(0, round(goes_on) - further) :]
        return found

    def _is_open(self, cohort: Cohort) -> bool:
        members = self._members(cohort)
        return len(members) < cohort.size or any(trial.status == "unfinished" for trial in members)

    def _open(self, cohort: Cohort) -> OpenCohort:
        members, came, further = self._members(cohort), [], []
        for end in cohort.ends[:-1]:
            there = [trial for trial in members if len(trial.epochs) >= end]
            came.append(len(there))
            further.append(sum(self._continued(trial, end) for trial in there))
        return OpenCohort(cohort, cohort.size - len(members), came, further)

    def _continued(self, trial: TrialRow, rung: int) -> bool:
        """Whether a trial that came to a rung continues there, or did."""
        is_live = trial.status == "unfinished" and trial.number not in self._paused | self._left
        return len(trial.epochs) > rung or is_live

    def _seated(self) -> list[Seat]:
        """All trials that have not ended. Of those that are not paused, as many train as there are slots; the
        others continue at a rung, and have waited longest for a slot."""
        seats = [
            Seat(trial, each.cohort, self.since_s(trial), trial.number in self._paused)
            for each in self.cohorts
            for trial in self._members(each.cohort)
            if trial.status == "unfinished"
            and len(trial.epochs) < each.cohort.ends[-1]
            and trial.number not in self._left
        ]
        training = sorted(
            (seat for seat in seats if not seat.waits),
            key=lambda seat: (len(seat.trial.epochs) in seat.cohort.ends, seat.since_s),
        )
        ready = [dataclasses.replace(seat, is_ready=True) for seat in training[self.ahead.slots :]]
        return [seat for seat in seats if seat.waits] + training[: self.ahead.slots] + ready
