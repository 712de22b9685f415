"""Promotions of asynchronous successive halving. Li et al., 2020, https://arxiv.org/abs/1810.05934

As published (algorithm 2), a trial pauses at a rung, and of every `factor` trials that have reached it the
best one continues. Unlike in Ray's ASHAScheduler, none continues because it came first, and none is stopped
while it may still be the next best. One difference to the paper: never more than 1/factor of a rung continue,
however much later trials improve, so the epochs of a sweep are known before it starts.

All follows from the record: in the order in which scores came to a rung, each `factor`-th one promotes the
best trial that waits there, if it is in the best 1/factor of all that came; else the promotion stays open.
When no more can come, the promotions that are still open (since trials failed, or were stopped before more
were planned) go to the best that wait, and a rung of which none got further promotes one more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal
from weakref import WeakKeyDictionary

from sweeps.common.objective import Losses
from sweeps.config.sweep_config import SweepConfig
from sweeps.record import constraints
from sweeps.record.best_first import BestFirst
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.search.rungs import rungs

Decision = Literal["CONTINUE", "PAUSE", "STOP"]
"""As in `ray.tune.schedulers.TrialScheduler`."""
MOST_WAITING = 8
"""Trials that wait at a rung. Each keeps a checkpoint, and the turn of one further back seldom comes."""


@dataclass
class Rung:
    """What was decided at one rung."""

    epoch: int
    next_epoch: int
    """The next rung, or the end."""
    promotions: int
    """How many trials continue, of the planned ones."""
    reached: set[int] = field(default_factory=set)
    promoted: set[int] = field(default_factory=set)
    ranked: BestFirst = field(default_factory=BestFirst)
    """All that reached it."""
    waiting: dict[int, Losses] = field(default_factory=dict)
    """Those that were not promoted, until they are stopped."""
    read: int = 0
    """How many of the record's scores at this epoch were added."""

    def in_turn(self) -> Iterator[tuple[int, int]]:
        """Position among all that reached it, and number, of each that waits, the best first."""
        if any(len(losses) > 2 for losses in self.waiting.values()):  # the order within a front is kept there
            return ((place, number) for place, number in enumerate(self.ranked) if number in self.waiting)
        order = sorted((losses, number) for number, losses in self.waiting.items())
        return ((self.ranked.place(number, losses), number) for losses, number in order)


class Promotions:
    """The rungs of a sweep, and who continues there.

    Args:
        config: max_epochs, grace_epochs and reduction_factor.
        record: what all trials have reported.
    """

    def __init__(self, config: SweepConfig, record: Record) -> None:
        self._factor = config.reduction_factor
        self._record = record
        _, *counts = trials_at_rungs(config, planned(record))
        epochs = [*rungs(config), config.max_epochs]
        self._rungs = [Rung(*each) for each in zip(epochs, epochs[1:], counts, strict=False)]

    @classmethod
    def of(cls, config: SweepConfig, record: Record) -> Promotions:
        """Those of a record; made anew when another number of trials is planned."""
        key = (*rungs(config), config.reduction_factor, planned(record))
        if record not in _MADE or _MADE[record][0] != key:
            _MADE[record] = key, cls(config, record)
        return _MADE[record][1]

    def decision(self, number: int, epoch: int, losses: Losses | None = None) -> Decision:
        """Whether a trial continues, pauses or stops after an epoch.

        Args:
            number: of the trial.
            epoch: its last one.
            losses: of this epoch, when the record does not have it yet.
        """
        rung = next((rung for rung in self._rungs if rung.epoch == epoch), None)
        if rung is None:
            return "CONTINUE"
        self._read(rung)
        if losses is not None:
            self._add(rung, number, losses)
        if number not in rung.reached or number in rung.promoted:
            return "CONTINUE"
        needs_one, to_come = not self._got_further(rung), rung.promotions - len(rung.promoted)
        if self._is_closed(rung, number):
            is_open = to_come > 0 or (needs_one and not self._is_on_its_way(rung))
            if is_open and self._promote(rung):
                return self.decision(number, epoch)
            to_come = 0
        turns = min(MOST_WAITING, max(to_come, int(needs_one)))
        return "PAUSE" if self._has_turn(rung, number, turns) else "STOP"

    def _read(self, rung: Rung) -> None:
        """Add the scores that the record has got since."""
        new = self._record.losses_since(rung.epoch, rung.read)
        rung.read += len(new)
        for number, losses in new:
            self._add(rung, number, losses)

    def _add(self, rung: Rung, number: int, losses: Losses) -> None:
        if number not in rung.reached:
            rung.reached.add(number)
            rung.waiting[number] = losses
            rung.ranked.add(number, losses)
            due = len(rung.reached) // self._factor
            while len(rung.promoted) < due and self._promote(rung, due):
                continue

    def _promote(self, rung: Rung, best: int | None = None) -> bool:
        """Promote the first that waits, if it is one of so many best of the rung; whether it was.

        One that was stopped waits no more, though more trials are planned now.
        """
        for stopped in [number for number in rung.waiting if self._was_stopped(rung, number)]:
            del rung.waiting[stopped]
        place, first = next(rung.in_turn(), (0, None))
        if first is None or (best is not None and place >= best):
            return False
        del rung.waiting[first]
        rung.promoted.add(first)
        return True

    def _was_stopped(self, rung: Rung, number: int) -> bool:
        """Whether it is out of turn here. One that ended otherwise may have been promoted before."""
        trial = self._record.trials[number]
        was_stopped = trial.status in ("pruned", "stopped") or constraints.is_missed(trial)
        return was_stopped and max(trial.epochs) == rung.epoch

    def _has_turn(self, rung: Rung, number: int, turns: int) -> bool:
        """Whether a trial is one of so many best of those that wait."""
        in_turn = (other for _, other in rung.in_turn())
        before = itertools.takewhile(lambda other: other != number, in_turn)
        waiting = (other for other in before if not self._was_stopped(rung, other))
        return len(list(itertools.islice(waiting, turns))) < turns

    def _got_further(self, rung: Rung) -> bool:
        """Whether a trial has reached the next rung."""
        return bool(self._record.scores_at(rung.next_epoch))

    def _is_on_its_way(self, rung: Rung) -> bool:
        """Whether a trial that was promoted still trains."""
        live = (trial for trial in self._record.live if trial.number in rung.reached)
        return any(
            trial.number in rung.promoted or max(trial.epochs, default=0) > rung.epoch for trial in live
        )

    def _is_closed(self, rung: Rung, but: int) -> bool:
        """Whether no trial but this one can come to a rung any more."""
        if len(self._record.searched) < planned(self._record):
            return False
        to_come = (t for t in self._record.live if t.number != but and self._may_come(t, rung))
        return next(to_come, None) is None

    def _may_come(self, trial: TrialRow, rung: Rung) -> bool:
        last = max(trial.epochs, default=0)
        return trial.confirms is None and last < rung.epoch and self.decision(trial.number, last) != "STOP"


_MADE: WeakKeyDictionary[Record, tuple[tuple[int, ...], Promotions]] = WeakKeyDictionary()


def planned(record: Record) -> int:
    """The number of trials of the whole search."""
    return max([len(record.searched), *record.planned_trials[-1:]])


def trials_at_rungs(config: SweepConfig, num_trials: int) -> list[int]:
    """How many trials start, reach each rung's promotion and, at last, the end."""
    counts = [num_trials]
    for _ in rungs(config):
        counts.append(max(1, counts[-1] // config.reduction_factor))
    return counts


def most_waiting(config: SweepConfig) -> int:
    """Trials that are paused at a time, at most: at each rung those that may still have their turn."""
    _, *promotions = trials_at_rungs(config, config.num_trials or 1)
    return sum(min(MOST_WAITING, count) for count in promotions)
