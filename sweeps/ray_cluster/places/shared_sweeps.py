"""The sweeps that share a Ray, as its divider of places knows them: who runs, who waits for whom."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import ray

from sweeps.common.formatting import rough
from sweeps.ray_cluster import nodes
from sweeps.ray_cluster.places import place_divider
from sweeps.ray_cluster.places.place_claims import this_user
from sweeps.ray_cluster.places.place_division import AnsweredClaim, Claim

ANSWERS_S = 20.0
"""Seconds in which the divider answers, even where Ray has to start it."""


@dataclass(frozen=True, kw_only=True)
class SharedSweep:
    """A sweep that runs or waits; its fields are those of `sweeps queue --json`."""

    name: str
    folder: str
    user: str
    pc: str
    """The PC that its process is on."""
    pid: int
    status: str
    """running or waiting."""
    place: int | None
    """Of one that waits: its place in the queue, 1 for the next one."""
    waits_for: Sequence[str]
    """Names of the sweeps before it, and their folders where two have one name."""
    priority: int
    share: float
    since: float
    """When it came, in seconds since 1970."""
    left_s: float | None
    """Seconds that it still takes, by its own estimate; None while that is not known."""
    trials: Mapping[str, float]
    """Trials in training, by PC."""
    cpus: float
    """That these hold."""
    gpus: float


def answered() -> list[AnsweredClaim]:
    """The claims of all sweeps of the connected Ray, the oldest first; [] where none has claimed."""
    divider = place_divider.found()
    if divider is None:
        return []
    try:
        found: list[AnsweredClaim] = ray.get(divider.claims.remote(), timeout=ANSWERS_S)
    except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):  # the sweeps start it anew
        return []
    return found


def listed() -> list[SharedSweep]:
    """The sweeps of the connected Ray: those that run, then those that wait, in their order."""
    pcs = {node.id: node.hostname for node in nodes.listed()}
    return in_order(answered(), pcs, time.time())


def in_order(answers: Sequence[AnsweredClaim], pcs: Mapping[str, str], now: float) -> list[SharedSweep]:
    """The same of claims.

    Args:
        answers: of the divider, the oldest first.
        pcs: Ray's id of each PC to its name.
        now: seconds since 1970.
    """
    running = [each for each in answers if not _waits(each)]
    waiting = [each for each in answers if _waits(each)]
    waiting.sort(key=lambda each: (-each.claim.priority, -each.age_s))
    places = {each.claim.sweep: place for place, each in enumerate(waiting, 1)}
    names = _told_apart(answers)

    def shown(answer: AnsweredClaim) -> SharedSweep:
        before = [names[sweep] for sweep in answer.allotment.waits_for if sweep in names]
        return _shown(answer, places.get(answer.claim.sweep), before, pcs, now)

    return [shown(each) for each in (*running, *waiting)]


def _waits(answer: AnsweredClaim) -> bool:
    return answer.claim.waits or bool(answer.allotment.waits_for)


def _told_apart(answers: Sequence[AnsweredClaim]) -> dict[str, str]:
    """The name of each sweep by its id, with its folder where others have the same name."""
    count = Counter(each.claim.name for each in answers)
    return {
        each.sweep: each.name if count[each.name] == 1 else f"{each.name} in {each.folder}"
        for each in (answer.claim for answer in answers)
    }


def _shown(
    answer: AnsweredClaim, place: int | None, before: Sequence[str], pcs: Mapping[str, str], now: float
) -> SharedSweep:
    claim, trials = answer.claim, Counter[str]()
    for node, held_there in claim.held.items():
        trials[pcs.get(node, node)] += held_there
    workers = sum(trials.values())

    def held(resource: str) -> float:
        return workers * claim.trial[0].get(resource, 0.0)

    return SharedSweep(
        name=claim.name,
        folder=claim.folder,
        user=claim.user,
        pc=claim.pc,
        pid=claim.pid,
        status="running" if place is None else "waiting",
        place=place,
        waits_for=before,
        priority=claim.priority,
        share=claim.share,
        since=now - answer.age_s,
        left_s=claim.left_s,
        trials={pc: count / len(claim.trial) for pc, count in trials.items() if count},
        cpus=held("CPU"),
        gpus=held("GPU"),
    )


@dataclass(frozen=True)
class Ahead:
    """For whom a sweep waits in the queue."""

    running: Mapping[str, float | None] = field(default_factory=dict)
    """Names of sweeps to the seconds that they still take, where these are known."""
    waiting: Sequence[str] = ()
    """Names of those that begin before it."""
    neighbours: Sequence[str] = ()
    """Other people and programs on its GPUs, a line each."""
    starting: Sequence[str] = ()
    """Sweeps that came before it and are still about to start."""

    @property
    def who(self) -> tuple[tuple[str, ...], ...]:
        """The same without what changes all the time."""
        others = ("others",) * bool(self.neighbours)
        return tuple(self.running), tuple(self.waiting), others, tuple(self.starting)

    def in_words(self) -> str:
        """`first runs, about 12 min left; second waits before it`"""
        left = {name: f", about {rough(s)} left" for name, s in self.running.items() if s is not None}
        words = [f"{name} runs{left.get(name, '')}" for name in self.running]
        if self.waiting:
            verb = "waits" if len(self.waiting) == 1 else "wait"
            words.append(f"{' and '.join(self.waiting)} {verb} before it")
        if self.starting:
            verb = "prepares" if len(self.starting) == 1 else "prepare"
            words.append(f"{' and '.join(self.starting)}, started before it, still {verb}")
        return "; ".join([*words, *self.neighbours]) or "the other sweeps are asked for their places"


def ahead(sweeps: Sequence[str], answers: Sequence[AnsweredClaim], starting: Sequence[str] = ()) -> Ahead:
    """The sweeps of these ids, for which another one waits.

    Args:
        sweeps: their ids.
        answers: of the divider.
        starting: others that came before it and are not known there yet.
    """
    names = _told_apart(answers)
    there = [each for each in answers if each.claim.sweep in sweeps]

    def named(claim: Claim) -> str:
        name = names[claim.sweep]
        return name if claim.user == this_user() else f"{name} of {claim.user}"

    return Ahead(
        {named(each.claim): each.claim.left_s for each in there if not _waits(each)},
        [named(each.claim) for each in there if _waits(each)],
        starting=starting,
    )
