"""One possible course of the rest of a sweep: its search is played, and then its reruns."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from random import Random

from sweeps.analysis.pace import Pace
from sweeps.analysis.rest_of_sweep import Entrant, Gate, Group, Play, Rules, chance_at_once
from sweeps.analysis.standing import OpenCohort, Seat, Standing

MOST_PLAYED = 150
"""Trials to come that are played one by one; of more, the first ones count as work that all slots share."""
FAVOUR = (1.45, 1.75)
"""By which factor more trials continue at the first and at later rungs, where each is decided at once, than
if scores came in random order: searchers propose better and better trials."""
FAVOUR_WEIGHT = 8.0
"""How many trials that continue it takes until the record tells more about that."""
HAZARD = (0.1, 2.0)
"""Trials that fail or diverge, and that do not, before any was seen."""
DRAWS = 20
"""Of a trial in its first epoch, until one takes as long as it trains already."""
LAUNCH_SPREAD = 0.3
"""Standard deviation of the logarithm of the time in which a process starts."""
LEAST_LEFT = 0.1
"""Of the epoch that a trial trains."""


class Course:
    """Draws what is not known of a sweep, and plays it.

    Args:
        standing: of the sweep.
        pace: of its trials.
        source: of chance.
    """

    def __init__(self, standing: Standing, pace: Pace, source: Random) -> None:
        self._standing, self._pace, self._source = standing, pace, source
        self._slots = standing.ahead.slots
        self._luck = pace.luck(source)
        self._unseen: list[Entrant] = []
        """Trials in their first epoch: without them, those that report first would stand for all."""

    def seconds(self) -> float:
        """How long the search and the reruns still take."""
        standing, pace = self._standing, self._pace
        lost, sound = HAZARD
        dead = len(standing.deaths)
        hazard = self._source.betavariate(lost + dead, sound + len(standing.record.searched) - dead)
        rules = Rules(self._slots, pace.begin_s, pace.first_epoch_s, hazard, standing.deaths)
        groups = {each.cohort.first: self._group(each) for each in standing.cohorts}
        shared_s = self._luck * self._share_work(list(groups.values()))
        seated = {seat.cohort.first for seat in standing.seats}
        played = [group for first, group in groups.items() if group.to_begin or first in seated]
        play = Play(rules, played, self._draw, self._source)
        for seat in standing.seats:
            self._sit(play, groups[seat.cohort.first], seat)
        return self._with_reruns(play.run() + shared_s)

    def _draw(self) -> Entrant:
        """A trial to come."""
        if self._source.random() * (self._pace.seen + len(self._unseen)) < len(self._unseen):
            return self._source.choice(self._unseen)
        rank = self._source.random()
        return Entrant(rank, self._luck * self._pace.draw(self._source, rank))

    def _group(self, each: OpenCohort) -> Group:
        cohort = each.cohort
        gates: list[Gate] = []
        for goes_on, came, further in zip(cohort.reach[1:], each.came, each.further, strict=True):
            gate = Gate(cohort.share, goes_on, came, further)
            if cohort.continues == "at once":
                gate.favour = self._favour(gate, is_first=not gates)
            gates.append(gate)
        return Group(cohort, each.to_begin, gates)

    def _favour(self, gate: Gate, is_first: bool) -> float:
        """By how many came to a gate and continued."""
        expected = sum(chance_at_once(before, gate.share) for before in range(1, int(gate.came)))
        shape = FAVOUR_WEIGHT * FAVOUR[not is_first] + max(0.0, gate.promoted - 1)
        return self._source.gammavariate(shape, 1 / (FAVOUR_WEIGHT + expected))

    def _share_work(self, groups: Sequence[Group]) -> float:
        """Take the first trials out where there are more to come than are played; their seconds."""
        beyond, seconds = sum(group.to_begin for group in groups) - MOST_PLAYED, 0.0
        for group in groups:
            skipped = min(group.to_begin, max(0, beyond))
            beyond -= skipped
            group.to_begin -= skipped
            cohort, part = group.cohort, skipped / group.cohort.size
            for gate, reach, goes_on in zip(group.gates, cohort.reach, cohort.reach[1:], strict=False):
                gate.came += part * reach
                gate.promoted += part * goes_on
            epochs = sum(reach * span for reach, span in zip(cohort.reach, cohort.spans, strict=True)) * part
            seconds += epochs * self._pace.mean + skipped * self._pace.first_epoch_s
            seconds += sum(cohort.reach) * part * self._pace.begin_s
        return seconds / self._slots

    def _sit(self, play: Play, group: Group, seat: Seat) -> None:
        """Add a trial that has begun to a play."""
        pace, trial, span = self._pace, seat.trial, seat.span
        begins_s = 0.0 if pace.is_launched else pace.launch_s
        if trial.epochs:
            rank = self._standing.ranks.get(trial.number, self._source.random())
            entrant = Entrant(rank, pace.again(self._source, trial))
        else:
            begins_s = pace.first_epoch_s + max(begins_s, pace.begin_s)
            entrant = self._first_seen(seat)
            self._unseen.append(entrant)
        if seat.waits:
            heapq.heappush(group.gates[span - 1].waiting, entrant)
        elif seat.is_ready:
            play.make_ready(group, span, entrant)
        else:
            left = group.cohort.ends[span] - len(trial.epochs)
            play.train(group, span, entrant, _rest_s(entrant.epoch_s, left, begins_s, seat.since_s))

    def _first_seen(self, seat: Seat) -> Entrant:
        """A trial in its first epoch, which takes at least as long as it trains already."""
        for _ in range(DRAWS):
            entrant = self._draw()
            launch_s = self._pace.launch_s * math.exp(self._source.gauss(0, LAUNCH_SPREAD))
            if launch_s + self._pace.first_epoch_s + entrant.epoch_s >= seat.since_s:
                return entrant
        return Entrant(entrant.rank, seat.since_s)

    def _with_reruns(self, search_s: float) -> float:
        """Seconds until the reruns of the best trials have ended, too. They begin in new processes."""
        record, pace, last = self._standing.record, self._pace, self._standing.ahead.last_epoch
        free, ends = [search_s] * self._slots, [search_s]
        for rerun in record.unfinished_reruns:
            first = record.trials[rerun.confirms or 0]
            trial = max(first, rerun, key=lambda trial: len(trial.epochs))
            begins_s = 0.0 if pace.is_launched and rerun.epochs else pace.launch_s
            epoch_s, left = pace.again(self._source, trial), last - len(rerun.epochs)
            ends.append(search_s + _rest_s(epoch_s, left, begins_s, self._standing.since_s(rerun)))
            heapq.heapreplace(free, ends[-1])
        for nth, epoch_s in enumerate(self._reruns_to_come()):
            is_new = not record.reruns.numbers and nth < self._slots
            begins_s = pace.first_epoch_s + (pace.launch_s if is_new else pace.begin_s)
            ends.append(free[0] + begins_s + last * epoch_s)
            heapq.heapreplace(free, ends[-1])
        return max(ends)

    def _reruns_to_come(self) -> Sequence[float]:
        """Seconds per epoch of each: of the best trials so far, which need not stay the best."""
        standing, pace, asked = self._standing, self._pace, self._standing.record.info.confirm
        if asked is None:
            return []
        trials = standing.record.trials
        if standing.is_searched:
            return [pace.again(self._source, trials[n]) for n, _ in standing.record.reruns_to_come()]
        good = pace.by_rank[: max(2, math.ceil(pace.seen / 3))]
        found = []
        are_several = standing.record.objectives.are_several
        top = max(1, len(standing.record.front())) if are_several else asked.top
        for nth in range(min(top, standing.ahead.planned)):
            stays = nth < len(standing.leaders) and self._source.random() < standing.done
            leader = trials[standing.leaders[nth]] if stays else None
            found.append(pace.again(self._source, leader) if leader else self._source.choice(good))
        return found * asked.seeds


def _rest_s(epoch_s: float, epochs: int, begins_s: float, since_s: float) -> float:
    """Seconds of the epochs that a trial has left, as many since it began the first of them."""
    return max(LEAST_LEFT * epoch_s, begins_s + epoch_s - since_s) + (epochs - 1) * epoch_s
