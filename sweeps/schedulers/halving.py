"""Successive halving in which trials wait: of those at a rung, the best ones continue as others arrive.

As published (Li et al., 2020, https://arxiv.org/abs/1810.05934, algorithm 2), a trial pauses at a rung, and
of every `factor` trials that have reached it the best one continues. Unlike in Ray's ASHAScheduler, none
continues because it came first, and none is stopped while it may still be the next best. One difference to
the paper: never more than 1/factor of a rung continue, however much later trials improve, so the epochs of a
sweep are known before it starts.

All follows from the record: in the order in which scores came to a rung, each `factor`-th one promotes the
best trial that waits there, if it is in the best 1/factor of all that came; else the promotion stays open.
When no more can come, the promotions that are still open (since trials failed, or were stopped before more
were planned) go to the best that wait, and a rung of which none got further promotes one more.

A trial that was opened again keeps the promotions that it had. It comes late to its other rungs, and is
judged there as one that arrives then, for what is left to decide.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sweeps.common.objective import Losses
from sweeps.config.sweep_config import SweepConfig
from sweeps.record import constraints
from sweeps.record.pareto import BestFirst
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.search.record_scheduler import Decision, PruningMethod
from sweeps.search.rungs import Cohort, nothing_is_pruned, rungs, rungs_and_end

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
    reached: dict[int, int] = field(default_factory=dict)
    """Each trial that came, and which of its attempts came last."""
    promoted: set[int] = field(default_factory=set)
    ranked: BestFirst = field(default_factory=BestFirst)
    """All that reached it."""
    waiting: dict[int, Losses] = field(default_factory=dict)
    """Those that were not promoted, until they are stopped."""
    read: int = 0
    """How many of the record's reports of this epoch were added."""

    def in_turn(self) -> Iterator[tuple[int, int]]:
        """Position among all that reached it, and number, of each that waits, the best first."""
        return ((place, number) for place, number in enumerate(self.ranked) if number in self.waiting)


class Scheduler(PruningMethod):
    """Pauses a trial at a rung until its turn comes."""

    TAKES_OBJECTIVES = True
    TAKES_MORE_EPOCHS = True
    PAUSES = True
    CONTINUES_FIRST = True

    def __init__(self, config: SweepConfig, record: Record) -> None:
        super().__init__(config, record)
        self._known, self._rungs = (-1, -1), list[Rung]()

    @classmethod
    def describe(cls, config: SweepConfig) -> str:
        if not (judged := rungs(config)):
            return f"halving: {nothing_is_pruned(config)}"
        first, *others = trials_at_rungs(config, config.num_trials or 1)
        if first == 1:
            return f"halving: a single trial, which trains to epoch {config.max_epochs}"
        further = [
            f"{'one' if more == 1 else more} to epoch {end}"
            for more, end in zip(others, [*judged[1:], config.max_epochs], strict=True)
        ]
        most = cls.most_waiting(config, 1)
        waits = f"{most} {'waits' if most == 1 else 'wait'}"
        best = f"of them the best {', '.join(further)}, chosen as they arrive"
        return (
            f"halving: {first} trials to epoch {judged[0]}, {best}; at most {waits} at a time, each with its "
            "checkpoint on disk"
        )

    @classmethod
    def cohorts(cls, config: SweepConfig, planned_trials: Sequence[int]) -> list[Cohort]:
        """All trials, of which exactly so many continue at each rung."""
        reach = tuple(trials_at_rungs(config, planned_trials[-1]))
        return [Cohort(0, rungs_and_end(config), reach, waits=True)]

    @classmethod
    def most_waiting(cls, config: SweepConfig, running: int) -> int:
        """At each rung those that may still have their turn, however many train."""
        _, *promotions = trials_at_rungs(config, config.num_trials or 1)
        return sum(min(MOST_WAITING, count) for count in promotions)

    def decide(self, number: int, epoch: int, losses: Losses | None = None) -> Decision:
        return self._decide(number, epoch, losses)

    def _decide(self, number: int, epoch: int, losses: Losses | None = None, came_to: int = 0) -> Decision:
        """The same where another trial has come to an epoch, which the record may not have yet."""
        rung = next((rung for rung in self._known_rungs() if rung.epoch == epoch), None)
        if rung is None:
            return "CONTINUE"
        self._read(rung)
        if losses is not None and number not in self.record.losses_at(epoch):
            self._add(rung, number, self.record.trials[number].attempt, losses, math.inf)
        if number not in rung.reached or number in rung.promoted:
            return "CONTINUE"
        # None got further.
        needs_one = came_to < rung.next_epoch and not self.record.arrivals_at(rung.next_epoch)
        to_come = rung.promotions - len(rung.promoted)
        if self._is_closed(rung, number, max(came_to, epoch)):
            is_open = to_come > 0 or (needs_one and not self._is_on_its_way(rung))
            if is_open and self._promote(rung):
                return self._decide(number, epoch, came_to=came_to)
            to_come = 0
        turns = min(MOST_WAITING, max(to_come, int(needs_one)))
        return "PAUSE" if self._has_turn(rung, number, turns) else "STOP"

    def _known_rungs(self) -> list[Rung]:
        """The rungs, made anew when more trials can come: others are planned, or are opened again. So nothing
        counts that no other process would find in the record."""
        if self._known != (known := (self._planned_now(), len(self.record.openings))):
            _, *counts = trials_at_rungs(self.config, self._planned_now())
            epochs = rungs_and_end(self.config)
            self._known = known
            self._rungs = [Rung(*each) for each in zip(epochs, epochs[1:], counts, strict=False)]
        return self._rungs

    def _planned_now(self) -> int:
        """The number of trials of the whole search."""
        return max([len(self.record.searched), *self.record.planned_trials[-1:]])

    def _read(self, rung: Rung) -> None:
        """Add the scores that the record has got since."""
        new = self.record.arrivals_at(rung.epoch)[rung.read :]
        rung.read += len(new)
        for arrival in new:
            self._note_those_ahead(rung, arrival.time)
            self._add(rung, arrival.number, arrival.attempt, arrival.losses, arrival.time)
        if new:
            self._note_those_ahead(rung, math.inf)

    def _add(self, rung: Rung, number: int, attempt: int, losses: Losses, now: float) -> None:
        if rung.reached.get(number, -1) >= attempt:
            return
        rung.reached[number] = attempt
        if number in rung.promoted:
            return
        rung.ranked.remove(number)
        rung.waiting[number] = losses
        rung.ranked.add(number, losses)
        due = len(rung.reached) // self.config.reduction_factor
        while len(rung.promoted) < due and self._promote(rung, due, now):
            continue

    def _note_those_ahead(self, rung: Rung, now: float) -> None:
        """Note that those are promoted that had gone on by then: some of them as no other trial could come,
        which does not follow from the arrivals."""
        for number in [*rung.waiting]:
            went_on_at = _went_on_at(self.record.trials[number], rung.epoch)
            if went_on_at < now and not self._was_stopped(rung, number, went_on_at):
                del rung.waiting[number]
                rung.promoted.add(number)

    def _promote(self, rung: Rung, best: int | None = None, now: float = math.inf) -> bool:
        """Promote the first that waits, if it is one of so many best of the rung; whether it was.

        One that was stopped waits no more, though more trials are planned now.
        """
        for stopped in [number for number in rung.waiting if self._was_stopped(rung, number, now)]:
            del rung.waiting[stopped]
        place, first = next(rung.in_turn(), (0, None))
        if first is None or (best is not None and place >= best):
            return False
        del rung.waiting[first]
        rung.promoted.add(first)
        return True

    def _was_stopped(self, rung: Rung, number: int, now: float = math.inf) -> bool:
        """Whether it was out of turn here by then. One that ended otherwise may have been promoted before."""
        trial = self.record.trials[number]
        rows = [*trial.attempts, trial][rung.reached[number] :] if trial.attempts else [trial]
        # One that a limit had stopped is in turn again once it is opened for more epochs.
        return any(
            max(row.epochs, default=0) == rung.epoch
            and (row.end is None or row.end <= now)
            and (
                row.status == "pruned"
                or (row is trial and row.status == "stopped")
                or constraints.is_missed(row)
            )
            for row in rows
        )

    def _has_turn(self, rung: Rung, number: int, turns: int) -> bool:
        """Whether a trial is one of so many best of those that wait."""
        in_turn = (other for _, other in rung.in_turn())
        before = itertools.takewhile(lambda other: other != number, in_turn)
        waiting = (other for other in before if not self._was_stopped(rung, other))
        return len(list(itertools.islice(waiting, turns))) < turns

    def _is_on_its_way(self, rung: Rung) -> bool:
        """Whether a trial that was promoted still trains."""
        live = (trial for trial in self.record.live if trial.number in rung.reached)
        return any(
            trial.number in rung.promoted or max(trial.epochs, default=0) > rung.epoch for trial in live
        )

    def _is_closed(self, rung: Rung, but: int, came_to: int) -> bool:
        """Whether no trial but this one, which has come to an epoch, can come to a rung any more."""
        if len(self.record.searched) < self._planned_now():
            return False
        others = (t for t in self.record.live if t.number != but and t.confirms is None)
        below = (t for t in others if max(t.epochs, default=0) < rung.epoch)
        return all(self._decide(t.number, max(t.epochs, default=0), None, came_to) == "STOP" for t in below)


def _went_on_at(trial: TrialRow, epoch: int) -> float:
    """When a trial went on after an epoch, as far as the record has it."""
    attempts = (*trial.attempts, trial)
    times = [row.time for _, later, row in trial.every_report() if later > epoch]
    pauses = (attempt.pauses.get(epoch) for attempt in attempts)
    times += [pause.ended for pause in pauses if pause is not None and pause.ended is not None]
    times += [attempt.start for attempt in attempts if attempt.passed_epoch >= epoch]
    return min(times, default=math.inf)


def trials_at_rungs(config: SweepConfig, num_trials: int) -> list[int]:
    """How many trials start, reach each rung's promotion and, at last, the end."""
    counts = [num_trials]
    for _ in rungs(config):
        counts.append(max(1, counts[-1] // config.reduction_factor))
    return counts
