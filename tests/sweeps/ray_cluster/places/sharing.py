"""Sweeps that obey the division of the places, played in no time: how long trials take to leave is drawn."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sweeps.ray_cluster.places.place_division import Allotment, Claim, PlaceDivision, Resources

ALL = 1000


@dataclass
class Played:
    """A sweep that is played.

    Args:
        name: unique.
        worker: what each worker of a trial takes.
        leaves_s: the longest time that a trial takes to leave.
        began_s: when it joins.
    """

    name: str
    worker: Resources
    workers: int = 1
    wanted: int = ALL
    share: float = 1.0
    leaves_s: float = 5.0
    began_s: float = 0.0
    closed: frozenset[str] = frozenset()
    held: Counter[str] = field(default_factory=Counter)
    leaving: list[tuple[str, float]] = field(default_factory=list)
    received: list[float] = field(default_factory=lambda: [0.0])
    """Seconds of a worker, by each second from the start."""
    moved: int = 0
    """Trials that were asked to leave."""

    @property
    def claim(self) -> Claim:
        return Claim(
            sweep=self.name,
            name=self.name,
            folder="",
            user="",
            pc="",
            pid=0,
            share=self.share,
            since_s=self.began_s,
            trial=(self.worker,) * self.workers,
            wanted=self.wanted,
            held=dict(+self.held),
            closed=self.closed,
        )

    def within(self, start_s: int, end_s: int) -> float:
        """Places that its workers held on average."""
        return (self.received[end_s] - self.received[start_s]) / (end_s - start_s)


def cpus(number: float) -> Resources:
    return {"CPU": number}


def play(
    sweeps: Sequence[Played],
    pcs: Mapping[str, Resources],
    seconds: int,
    step_s: int = 1,
    division: PlaceDivision | None = None,
) -> None:
    """Divide once in each step, and have all sweeps obey.

    Args:
        sweeps: change in place.
        pcs: what each PC has.
        seconds: to play.
        step_s: seconds between two divisions.
        division: that goes on; None: a new one.
    """
    generator, division = random.Random(0), division or PlaceDivision()
    free = {pc: dict(has) for pc, has in pcs.items()}

    def hold(sweep: Played, pc: str, workers: int) -> None:
        sweep.held[pc] += workers
        for name, amount in sweep.worker.items():
            free[pc][name] -= workers * amount

    for now in range(0, seconds, step_s):
        there = [sweep for sweep in sweeps if sweep.began_s <= now]
        allotments = division.renew([sweep.claim for sweep in there], pcs, float(now))
        for sweep in there:
            for pc, at in [each for each in sweep.leaving if each[1] <= now]:
                sweep.leaving.remove((pc, at))
                hold(sweep, pc, -1)
            staying = sweep.held - Counter(pc for pc, _ in sweep.leaving)
            for pc, workers in staying.items():
                for _ in range(workers - _most(allotments[sweep.name], pc)):
                    sweep.leaving.append((pc, now + generator.uniform(0, sweep.leaves_s)))
                    sweep.moved += 1
        for sweep in there:
            for pc in pcs:
                while (
                    sweep.held[pc] < _most(allotments[sweep.name], pc)
                    and sweep.held.total() < sweep.wanted * sweep.workers
                    and all(free[pc][name] >= amount - 1e-6 for name, amount in sweep.worker.items())
                ):
                    hold(sweep, pc, 1)
        for sweep in sweeps:
            for _ in range(step_s):
                sweep.received.append(sweep.received[-1] + sweep.held.total())


def _most(allotment: Allotment, pc: str) -> int:
    return ALL if allotment.places is None else allotment.places.get(pc, 0)
