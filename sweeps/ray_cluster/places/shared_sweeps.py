"""The sweeps that share a Ray: who runs, who waits for whom.

The divider of places knows them (`place_divider.py`). On the Ray of this PC each sweep also notes its claim
and the answer in the file by which it uses that Ray (`ray_start/ray_folder.py`), for who asks without Ray.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import psutil

from sweeps.common.formatting import rough
from sweeps.ray_cluster.places.place_division import Allotment, AnsweredClaim, Claim
from sweeps.ray_start.ray_folder import User


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
    """Of one that waits for others: its place in the queue, 1 for the next one."""
    waits_for: Sequence[str]
    """Names of the sweeps before it, and their folders where two have one name."""
    waits_on: str
    """What else it waits for, in words."""
    waits_since: float | None
    """In seconds since 1970; None where it runs."""
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


def note_of(answer: AnsweredClaim, now_s: float) -> str:
    """A claim and its answer as text; `now_s` by the monotonic clock of this PC."""

    def plain(part: object) -> object:
        """A part that is a dataclass or a set. (`dataclasses.asdict` makes nonsense of a Counter.)"""
        return sorted(part) if isinstance(part, frozenset) else vars(part)

    return json.dumps({**vars(answer), "noted_s": now_s}, default=plain)


def noted(users: Sequence[User], now_s: float) -> list[AnsweredClaim]:
    """The claims that the users of the Ray of this PC have noted, the oldest first; `now_s` by its monotonic
    clock. Of what another version has noted, which lacks a field of this one, nothing is known."""
    found = []
    for user in users:
        with contextlib.suppress(ValueError, LookupError, TypeError):
            content = json.loads(user.claim)
            passed_s = now_s - content["noted_s"]
            claim = Claim(**_known(Claim, content["claim"]))
            claim = replace(claim, waits_s=claim.waits_s + passed_s)
            allotment = Allotment(**_known(Allotment, content["allotment"]))
            found.append(AnsweredClaim(claim, allotment, content["age_s"] + passed_s))
    return sorted(found, key=lambda answer: -answer.age_s)


def _known(kind: type[Claim | Allotment], content: Mapping[str, Any]) -> dict[str, Any]:
    return {each.name: content[each.name] for each in fields(kind) if each.name in content}


def this_user() -> str:
    """The name of this user; its number in a container that does not know its user."""
    return psutil.Process().username()


def in_order(answers: Sequence[AnsweredClaim], pcs: Mapping[str, str], now: float) -> list[SharedSweep]:
    """The same of claims, the oldest first, by the names of the PCs and the time in seconds since 1970."""
    running = [each for each in answers if not _waits(each)]
    waiting = [each for each in answers if _waits(each)]
    waiting.sort(key=lambda each: (bool(each.allotment.waits_for), -each.claim.priority, -each.age_s))
    queued = [each.claim.sweep for each in waiting if each.allotment.waits_for]
    places = {sweep: place for place, sweep in enumerate(queued, 1)}
    names = _told_apart(answers)

    def shown(answer: AnsweredClaim) -> SharedSweep:
        before = [names[sweep] for sweep in answer.allotment.waits_for if sweep in names]
        return _shown(answer, places.get(answer.claim.sweep), before, pcs, now)

    return [shown(each) for each in (*running, *waiting)]


def _waits(answer: AnsweredClaim) -> bool:
    return bool(answer.claim.waits_on or answer.allotment.waits_for)


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
    claim, trials, since = answer.claim, Counter[str](), now - answer.age_s
    waits_since = since if answer.allotment.waits_for else now - answer.claim.waits_s
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
        status="waiting" if _waits(answer) else "running",
        place=place,
        waits_for=before,
        waits_on=claim.waits_on,
        waits_since=waits_since if _waits(answer) else None,
        priority=claim.priority,
        share=claim.share,
        since=since,
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
        return "; ".join([*words, *self.beside_sweeps]) or "the other sweeps are asked for their places"

    @property
    def beside_sweeps(self) -> list[str]:
        """For what else it waits, which the divider of places does not know, in words."""
        words = list(self.neighbours)
        if self.starting:
            verb = "prepares" if len(self.starting) == 1 else "prepare"
            words.append(f"{' and '.join(self.starting)}, started before it, still {verb}")
        return words


def ahead(sweeps: Sequence[str], answers: Sequence[AnsweredClaim], starting: Sequence[str] = ()) -> Ahead:
    """The sweeps of these ids, for which another one waits, and others that came before it and are still
    about to start."""
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
