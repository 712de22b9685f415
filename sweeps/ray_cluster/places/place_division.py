"""How sweeps that run on the same PCs divide the places there: weighted fair queueing over time.

Each sweep has a virtual time: the part of all resources that its trials held, times seconds, by its share.
Places go one by one to the sweep whose virtual time would be the least after `LOOKAHEAD_S` with one trial
more. So a sweep that is behind gets more until it has caught up, and the rest that can't be divided goes
round. A trial stays where it is as long as its sweep leads by less than a quantum.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LOOKAHEAD_S = 60.0
"""In which a sweep that is behind catches up."""
SHORTEST_QUANTUM_S, LONGEST_QUANTUM_S = 5.0, 60.0
"""Seconds of a trial by which a sweep leads or lags before a place changes hands. A process that begins anew
takes a few of them."""
OF_TEN_MINUTES = 25.0
"""The same for each trial of a sweep's share. With the time that trials take to leave, a lead and a lag of so
much are less than a tenth of ten minutes."""
MOST_BEHIND_S = 120.0
"""The same of the largest trials that a PC holds, that is made up for at most. A sweep whose trials can't be
placed for an hour gets no hour of all places afterwards."""
ROUNDED = 1e-6
Resources = Mapping[str, float]
"""Amounts by Ray's names."""
Places = Mapping[str, int]
"""Workers by Ray's id of a PC; of trials with one worker these are the trials."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a sweep that runs asks of the PCs."""

    sweep: str
    """Unique id of this run of it."""
    name: str
    folder: str
    user: str
    pc: str
    pid: int
    job: str = ""
    """Ray's id of its job."""
    share: float = 1.0
    priority: int = 0
    is_queued: bool = False
    """Whether it waits until no other sweep runs before it."""
    waits_on: str = ""
    """For what it waits that its driver alone knows, in words: memory of a GPU, say; "" for nothing."""
    waits_s: float = 0.0
    """For how long it has waited on that."""
    age_s: float = 0.0
    """Since it came, by the clock of its own PC."""
    since_s: float = 0.0
    """When it came, by the clock of the divider, which sets it."""
    trial: tuple[Resources, ...]
    """What each worker of a trial takes; all take the same."""
    wanted: int
    """Trials that it could run at a time now; 0 in a pause."""
    held: Places
    closed: frozenset[str] = frozenset()
    """Ray's ids of PCs on which it may place nothing."""
    left_s: float | None = None
    """Its own estimate of how long it still takes."""


@dataclass(frozen=True)
class Allotment:
    """What a sweep may hold."""

    places: Places | None
    """None: all that fits, since it is alone."""
    waits_for: tuple[str, ...] = ()
    """Ids of the sweeps before it in the queue."""
    others: tuple[str, ...] = ()
    """Names of the other sweeps that train on the same PCs."""


@dataclass(frozen=True)
class AnsweredClaim:
    """A sweep that runs or waits, as the divider knows it."""

    claim: Claim
    allotment: Allotment
    age_s: float
    """Since it came."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What is divided for one sweep."""

    sweep: str
    worker: Resources
    workers: int = 1
    """Of a trial."""
    wanted: int
    """Trials."""
    share: float = 1.0
    lead_s: float = 0.0
    """Its virtual time less that of others: less than 0 where it is behind."""
    kept: Places = field(default_factory=dict)
    """What it was given before."""
    closed: frozenset[str] = frozenset()


def divide(demands: Sequence[Demand], pcs: Mapping[str, Resources]) -> dict[str, dict[str, int]]:
    """The places of each sweep, by PC: workers of whole trials. The demands are ordered, the oldest first."""
    packing = _Packing(demands, pcs)
    total_share = sum(demand.share for demand in demands if demand.wanted)
    steps = {each.sweep: part_of_all(each, pcs) / each.share for each in demands}
    quanta = {each.sweep: quantum_s(each, pcs, total_share) for each in demands}
    kept = {each.sweep: packing.kept_workers(each) // each.workers for each in demands}
    given: Counter[str] = Counter()

    def key(demand: Demand) -> float:
        """Virtual time with one trial more, less that which a kept one is spared."""
        nth, step = given[demand.sweep], steps[demand.sweep]
        is_kept = nth < kept[demand.sweep]
        return demand.lead_s + step * (nth * LOOKAHEAD_S - (quanta[demand.sweep] if is_kept else 0.0))

    queue = [(key(each), order) for order, each in enumerate(demands) if each.wanted > 0 and each.worker]
    heapq.heapify(queue)
    while queue:
        _, order = heapq.heappop(queue)
        demand = demands[order]
        if packing.place(demand):
            given[demand.sweep] += 1
            if given[demand.sweep] < demand.wanted:
                heapq.heappush(queue, (key(demand), order))
    return packing.given


def part_of_all(demand: Demand, pcs: Mapping[str, Resources]) -> float:
    """The part of all PCs' resources that a trial takes, of the one of which it takes most; 0 where no PC has
    any of it."""
    totals: Counter[str] = Counter()
    for has in pcs.values():
        totals.update(has)
    parts = [amount / totals[name] for name, amount in demand.worker.items() if totals[name] > 0]
    return demand.workers * max(parts, default=0.0)


def quantum_s(demand: Demand, pcs: Mapping[str, Resources], total_share: float) -> float:
    """Seconds of a trial by which a sweep leads before it gives a place away."""
    part = part_of_all(demand, pcs)
    fair = demand.share / total_share / part if part and total_share else 1.0
    return min(max(SHORTEST_QUANTUM_S, OF_TEN_MINUTES * fair), LONGEST_QUANTUM_S)


def has_room(demand: Demand, pcs: Mapping[str, Resources]) -> bool:
    """Whether a trial could be placed where nothing else is."""
    return _Packing([demand], pcs).place(demand)


class _Packing:
    """Trials on PCs, put there one by one."""

    def __init__(self, demands: Sequence[Demand], pcs: Mapping[str, Resources]) -> None:
        self._demands = {each.sweep: each for each in demands}
        self._free = {pc: dict(has) for pc, has in pcs.items()}
        """What is not given yet."""
        self._kept = {
            each.sweep: Counter({pc: n for pc, n in each.kept.items() if pc in pcs and pc not in each.closed})
            for each in demands
        }
        """Workers that are where they were, and have not been given their place again."""
        self._spare = {pc: dict(has) for pc, has in pcs.items()}
        """What is neither given nor kept; less than nothing where some must go."""
        for each in demands:
            for pc, workers in self._kept[each.sweep].items():
                _take(self._spare[pc], each.worker, workers)
        self.given: dict[str, dict[str, int]] = {each.sweep: {} for each in demands}

    def kept_workers(self, demand: Demand) -> int:
        """Workers of a sweep that may stay where they are."""
        return sum(self._kept[demand.sweep].values())

    def place(self, demand: Demand) -> bool:
        """Give a sweep a place for one more trial: where it has one, else where nothing is kept, else where
        the sweep that leads most has one. Whether there was any."""
        chosen: list[tuple[str, bool]] = []
        for _ in range(demand.workers):
            if (found := self._worker(demand)) is None:
                for pc, was_kept in chosen:
                    self._give(demand, pc, -1, was_kept=was_kept)
                return False
            self._give(demand, *found[:1], 1, was_kept=found[1])
            chosen.append(found)
        return True

    def _worker(self, demand: Demand) -> tuple[str, bool] | None:
        """The PC for a worker, and whether it was kept there."""
        kept = self._kept[demand.sweep]
        open_pcs = [pc for pc in self._free if pc not in demand.closed and _fits(self._free[pc], demand)]
        if there := [pc for pc in open_pcs if kept[pc] > 0]:
            return max(there, key=lambda pc: kept[pc]), True
        if spare := [pc for pc in open_pcs if _fits(self._spare[pc], demand)]:
            return min(spare, key=lambda pc: _room(self._spare[pc], demand)), False  # large rooms stay whole
        return (min(open_pcs, key=lambda pc: self._cost(pc, demand)), False) if open_pcs else None

    def _cost(self, pc: str, demand: Demand) -> tuple[int, float]:
        """Workers that lose their places on a PC to one of this sweep, and minus the lead of theirs."""
        spare, moved, lead = dict(self._spare[pc]), 0, 0.0
        there = ((self._demands[sweep], kept[pc]) for sweep, kept in self._kept.items() if kept[pc] > 0)
        for other, workers in sorted(there, key=lambda each: -each[0].lead_s):
            for _ in range(workers):
                if _fits(spare, demand):
                    return moved, -lead
                _take(spare, other.worker, -1)
                moved, lead = moved + 1, max(lead, other.lead_s)
        return moved, -lead

    def _give(self, demand: Demand, pc: str, workers: int, *, was_kept: bool) -> None:
        _take(self._free[pc], demand.worker, workers)
        if was_kept:
            self._kept[demand.sweep][pc] -= workers
        else:
            _take(self._spare[pc], demand.worker, workers)
        given = self.given[demand.sweep]
        given[pc] = given.get(pc, 0) + workers
        if not given[pc]:
            del given[pc]


@dataclass
class _Sweep:
    """What the division knows of a sweep beside its claim."""

    lead_s: float = 0.0
    """Its virtual time, less that of all sweeps together."""
    places: Places | None = None
    """Of the last division; None where it was alone."""
    has_all: bool = False
    """Whether it had all that it wanted."""
    has_begun: bool = False
    """Whether it was given places, or held some: it waits in no queue any more."""


class PlaceDivision:
    """The division of the places over time, which begins empty and is rebuilt from the next claims."""

    def __init__(self) -> None:
        self._sweeps: dict[str, _Sweep] = {}
        self._then_s: float | None = None

    def renew(
        self, claims: Sequence[Claim], pcs: Mapping[str, Resources], now_s: float
    ) -> dict[str, Allotment]:
        """Divide anew, at a time of a monotonic clock: the allotment of each sweep."""
        claims = sorted(claims, key=lambda claim: (claim.since_s, claim.sweep))
        passed_s = 0.0 if self._then_s is None else max(0.0, now_s - self._then_s)
        self._then_s = now_s
        waiting = self._waiting(claims)
        training = [c for c in claims if c.sweep not in waiting and (c.wanted or c.held)]
        known = [claim for claim in training if claim.sweep in self._sweeps]
        self._charge(known, pcs, passed_s)
        self._sweeps = {c.sweep: self._sweeps.get(c.sweep, _Sweep()) for c in training}
        given = divide([self._demand(claim) for claim in training], pcs)
        found: dict[str, Allotment] = {}
        for claim in claims:
            others = tuple(each.name for each in training if each.sweep != claim.sweep)
            if (of := self._sweeps.get(claim.sweep)) is None:
                found[claim.sweep] = Allotment({}, waiting.get(claim.sweep, ()), others)
                continue
            of.places = given[claim.sweep] if others else None
            of.has_all = sum(given[claim.sweep].values()) >= claim.wanted * len(claim.trial)
            of.has_begun = of.has_begun or of.places != {}
            found[claim.sweep] = Allotment(of.places, (), others)
        return found

    def _waiting(self, claims: Sequence[Claim]) -> dict[str, tuple[str, ...]]:
        """The sweeps that wait in the queue, and for which others: for all that run and came before them, and
        for those that wait and come first by their priority."""
        queued = [claim for claim in claims if claim.is_queued and not self._has_begun(claim)]
        in_turn = sorted(queued, key=lambda claim: (-claim.priority, claim.since_s))
        running = [claim for claim in claims if claim not in queued]
        waiting = {}
        for place, claim in enumerate(in_turn):
            before = [each for each in running if each.since_s <= claim.since_s or each.is_queued]
            if before or place:
                waiting[claim.sweep] = tuple(each.sweep for each in [*before, *in_turn[:place]])
        return waiting

    def _has_begun(self, claim: Claim) -> bool:
        known = self._sweeps.get(claim.sweep)
        return bool(claim.held) or (known is not None and known.has_begun)

    def _demand(self, claim: Claim) -> Demand:
        known = self._sweeps[claim.sweep]
        return Demand(
            sweep=claim.sweep,
            worker=claim.trial[0],
            workers=len(claim.trial),
            wanted=claim.wanted,
            share=claim.share,
            lead_s=known.lead_s,
            kept=claim.held if known.places is None else known.places,
            closed=claim.closed,
        )

    def _charge(self, claims: Sequence[Claim], pcs: Mapping[str, Resources], passed_s: float) -> None:
        """Add what each sweep has received to its lead: one that had all it wanted does not fall behind, and
        none is far behind or ahead."""
        rates = self._rates(claims, pcs)
        if not rates:
            return
        demands = [self._demand(claim) for claim in claims]
        steps = [part_of_all(each, pcs) / each.share for each in demands if has_room(each, pcs)]
        far = MOST_BEHIND_S * max(steps, default=0.0)
        level = self._level(claims, rates, far)
        for claim in claims:
            of = self._sweeps[claim.sweep]
            lead_s = of.lead_s + (rates[claim.sweep] - level) * passed_s
            if of.has_all:
                lead_s = max(lead_s, min(0.0, of.lead_s))
            of.lead_s = min(max(lead_s, -far), far)

    def _rates(self, claims: Sequence[Claim], pcs: Mapping[str, Resources]) -> dict[str, float]:
        """The part of all resources that each sweep has, by its share: what it holds, and what it was given
        and is free for it."""
        free = {pc: dict(has) for pc, has in pcs.items()}
        for claim in claims:
            for pc, workers in claim.held.items():
                if pc in free:
                    _take(free[pc], claim.trial[0], workers)
        rates = {}
        for claim in claims:
            demand, workers = self._demand(claim), sum(claim.held.values())
            for pc, given in (self._sweeps[claim.sweep].places or {}).items():
                for _ in range(given - claim.held.get(pc, 0)):
                    if pc in free and _fits(free[pc], demand):
                        _take(free[pc], demand.worker, 1)
                        workers += 1
            rates[claim.sweep] = workers * part_of_all(demand, pcs) / demand.workers / claim.share
        return rates

    def _level(self, claims: Sequence[Claim], rates: Mapping[str, float], far: float) -> float:
        """The rate that is due to all sweeps which want that much and can have it."""
        count = [claim for claim in claims if self._sweeps[claim.sweep].lead_s > -far] or claims
        while True:
            level = sum(c.share * rates[c.sweep] for c in count) / sum(c.share for c in count)
            few = [c for c in count if self._sweeps[c.sweep].has_all and rates[c.sweep] < level - ROUNDED]
            if not few:
                return level
            count = [claim for claim in count if claim not in few]


def _fits(room: Resources, demand: Demand) -> bool:
    return all(room.get(name, 0.0) >= amount - ROUNDED for name, amount in demand.worker.items())


def _room(room: Resources, demand: Demand) -> float:
    """Workers for which there is room."""
    rooms = (room.get(name, 0.0) / amount for name, amount in demand.worker.items() if amount)
    return min(rooms, default=0.0)


def _take(room: dict[str, float], worker: Resources, workers: int) -> None:
    for name, amount in worker.items():
        room[name] = room.get(name, 0.0) - workers * amount
