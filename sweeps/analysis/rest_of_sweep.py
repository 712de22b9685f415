"""Plays the rest of a search: who trains how far, in which slot, for how long."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import NormalDist

from sweeps.search.cohorts import Cohort

RANK_KEPT = 0.6
"""Correlation of the ranks of a trial at one rung and at the next, as normal scores."""
_NORMAL = NormalDist()


def next_rank(rank: float, source: Random) -> float:
    """The rank of a trial at the next rung, from 0, the best, to 1."""
    score = _NORMAL.inv_cdf(min(max(rank, 1e-6), 1 - 1e-6))
    return _NORMAL.cdf(RANK_KEPT * score + math.sqrt(1 - RANK_KEPT**2) * source.gauss(0, 1))


def chance_at_once(before: float, share: float) -> float:
    """The chance that a trial continues at once, as so many came before it, if scores come in random order.

    Its score is not below the quantile of those before (`rungs.Arrivals`), which lies between two of them.
    """
    return ((before - 1) * share + 1) / (before + 1) if before >= 1 else 1.0


@dataclass(frozen=True, order=True)
class Entrant:
    """A trial of a play."""

    rank: float
    """From 0, the best, to 1."""
    epoch_s: float = field(compare=False)
    """Seconds that an epoch takes."""


@dataclass
class Gate:
    """A rung, as the trials of a cohort come there."""

    share: float
    """Of those that come, so many continue in turn. At once: see `Cohort.share`."""
    promotions: float
    """How many continue in all, unless at once."""
    came: float
    promoted: float
    waiting: list[Entrant] = field(default_factory=list)
    """A heap, the best one first."""
    favour: float = 1.0
    """At once: by which factor more continue than would if the scores came in random order."""

    def due(self, is_last: bool) -> int:
        """How many are to be promoted so far; `is_last` where no more can come."""
        return math.floor(self.promotions if is_last else min(self.promotions, self.share * self.came) + 1e-9)


@dataclass
class Group:
    """A cohort in a play."""

    cohort: Cohort
    to_begin: int
    gates: Sequence[Gate]
    """Of each rung."""
    under_way: list[int] = field(init=False)
    """Trials that train, or wait for a slot, to each of the ends."""

    def __post_init__(self) -> None:
        self.under_way = [0] * len(self.cohort.ends)


@dataclass(frozen=True)
class Rules:
    """What holds for all trials of a play."""

    slots: int
    """Trials at a time."""
    begin_s: float
    """Before the first epoch after a start or a pause."""
    first_epoch_s: float
    """What the first epoch of a trial takes more."""
    hazard: float
    """Share of the spans between two rungs in which a trial fails or diverges."""
    deaths: Sequence[int]
    """After how many epochs trials did."""


class Play:
    """One possible course.

    Args:
        rules: of the play.
        groups: the trials that have not ended are added by `train` and `make_ready`.
        draw: a new entrant.
        source: of chance.
    """

    def __init__(
        self, rules: Rules, groups: Sequence[Group], draw: Callable[[], Entrant], source: Random
    ) -> None:
        self._rules, self._groups, self._draw, self._source = rules, groups, draw, source
        self._training: list[tuple[float, int, Group, int, Entrant | None]] = []
        self._ready: list[tuple[int, int, Group, Entrant]] = []
        self._order = itertools.count()
        self._now = 0.0

    def train(self, group: Group, span: int, entrant: Entrant, seconds: float) -> None:
        """Let a trial train to the end of a span, unless it dies before."""
        alive: Entrant | None = entrant
        if self._source.random() < self._rules.hazard:
            length = group.cohort.spans[span]
            died_after = self._source.choice(self._rules.deaths) if self._rules.deaths else length / 2
            alive, seconds = None, seconds * min(1.0, died_after / length)
        group.under_way[span] += 1
        heapq.heappush(self._training, (self._now + seconds, next(self._order), group, span, alive))

    def make_ready(self, group: Group, span: int, entrant: Entrant) -> None:
        """Let a trial that continues wait for a slot."""
        group.under_way[span] += 1
        heapq.heappush(self._ready, (-group.cohort.ends[span], next(self._order), group, entrant))

    def run(self) -> float:
        """Seconds until the last trial ends."""
        for group in self._groups:
            self._promote(group)
        self._fill()
        while self._training:
            self._now, _, group, span, entrant = heapq.heappop(self._training)
            group.under_way[span] -= 1
            if entrant is not None and span < len(group.gates):
                self._arrive(group, span, entrant)
            self._promote(group)
            self._fill()
        return self._now

    def _arrive(self, group: Group, span: int, entrant: Entrant) -> None:
        """At the rung behind a span."""
        gate = group.gates[span]
        chance = gate.favour * chance_at_once(gate.came, gate.share)
        gate.came += 1
        if group.cohort.continues != "at once":
            rank = next_rank(entrant.rank, self._source)
            heapq.heappush(gate.waiting, Entrant(rank, entrant.epoch_s))
        elif self._source.random() < chance:
            self.train(group, span + 1, entrant, self._seconds(group, span + 1, entrant))

    def _promote(self, group: Group) -> None:
        """Those whose turn it is."""
        if group.cohort.continues == "at once":
            return
        for span, gate in enumerate(group.gates):
            is_last = not group.to_begin and not any(group.under_way[: span + 1])
            if group.cohort.continues == "together" and not is_last:
                return
            due = gate.due(is_last)
            while gate.waiting and gate.promoted < due:
                gate.promoted += 1
                self.make_ready(group, span + 1, heapq.heappop(gate.waiting))

    def _fill(self) -> None:
        """Let trials train in the slots that are free."""
        while len(self._training) < self._rules.slots:
            begins = next((group for group in self._groups if group.to_begin), None)
            if self._ready and (begins is None or begins.cohort.continues != "together"):
                end, _, group, entrant = heapq.heappop(self._ready)
                span = group.cohort.ends.index(-end)
                group.under_way[span] -= 1
                self.train(group, span, entrant, self._rules.begin_s + self._seconds(group, span, entrant))
            elif begins is not None:
                begins.to_begin -= 1
                entrant = self._draw()
                self.train(begins, 0, entrant, self._seconds(begins, 0, entrant))
            else:
                return

    def _seconds(self, group: Group, span: int, entrant: Entrant) -> float:
        before = self._rules.begin_s + self._rules.first_epoch_s if span == 0 else 0.0
        return before + group.cohort.spans[span] * entrant.epoch_s
