"""The actor of a Ray that divides the places among the sweeps that run there.

The drivers claim again and again, so it keeps nothing. One that is lost is started anew by the next claim,
and rebuilt from those of all.
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import ray

from sweeps.ray_cluster import nodes, ray_internals
from sweeps.ray_cluster.places.place_division import (
    Allotment,
    AnsweredClaim,
    Claim,
    PlaceDivision,
    Resources,
)
from sweeps.ray_cluster.places.shared_sweeps import SharedSweep, in_order
from sweeps.ray_start.ray_folder import versions

NAME, NAMESPACE = "place_divider", "sweeps"
CLAIM_EVERY_S = 1.0
"""A driver claims so often, and the places are divided so often."""
ANSWERS_S = 20.0
"""Seconds in which the divider answers, even where Ray has to start it."""
SILENT_AFTER_S = 60.0
"""A sweep that has not claimed for so long has no places any more. Its job may be there, and hang."""


def resources_of_pcs() -> dict[str, Resources]:
    """What each PC has that is alive, by Ray's id of it."""
    return {node.id: node.has for node in nodes.living()}


class PlaceDivider:
    """Answers the claims of all sweeps, by what each PC has and which jobs have ended."""

    def __init__(
        self,
        pcs: Callable[[], Mapping[str, Resources]] = resources_of_pcs,
        ended_jobs: Callable[[], Collection[str]] = ray_internals.ended_jobs,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pcs, self._ended_jobs, self._clock = pcs, ended_jobs, clock
        self._claims: dict[str, Claim] = {}
        self._heard_s: dict[str, float] = {}
        self._division, self._allotments = PlaceDivision(), dict[str, Allotment]()
        self._divided_s = -CLAIM_EVERY_S

    def claim(self, claim: Claim) -> Allotment:
        """What a sweep may hold, which claims for the first time or again."""
        now_s, known = self._clock(), self._claims.get(claim.sweep)
        since_s = known.since_s if known is not None else now_s - claim.age_s
        self._claims[claim.sweep] = dataclasses.replace(claim, since_s=since_s)
        self._heard_s[claim.sweep] = now_s
        self._renew(at_once=known is None)
        return self._allotments.get(claim.sweep, Allotment({}))  # its job has ended meanwhile

    def withdraw(self, sweep: str) -> None:
        """Take a sweep's places: it has ended, or pauses."""
        self._forget(sweep)
        self._renew(at_once=True)

    def claims(self) -> list[AnsweredClaim]:
        """All sweeps that run or wait, the oldest first."""
        self._renew()
        now_s = self._clock()
        in_turn = sorted(self._claims.values(), key=lambda claim: claim.since_s)
        return [
            AnsweredClaim(each, self._allotments[each.sweep], now_s - each.since_s)
            for each in in_turn
            if each.sweep in self._allotments
        ]

    def version(self) -> str:
        """Of this program here. Like `names` it is understood by all versions."""
        return versions()["sweeps"]

    def names(self) -> list[str]:
        """The names of all sweeps that run or wait."""
        return [each.claim.name for each in self.claims()]

    def _renew(self, *, at_once: bool = False) -> None:
        now_s = self._clock()
        if not at_once and now_s < self._divided_s + CLAIM_EVERY_S:
            return
        self._divided_s = now_s
        ended = self._ended_jobs()
        for sweep, claim in [*self._claims.items()]:
            if claim.job in ended or now_s > self._heard_s[sweep] + SILENT_AFTER_S:
                self._forget(sweep)
        self._allotments = self._division.renew([*self._claims.values()], self._pcs(), now_s)

    def _forget(self, sweep: str) -> None:
        self._claims.pop(sweep, None)
        self._heard_s.pop(sweep, None)


def found() -> Any:
    """The divider of the connected Ray; None where no sweep has claimed there yet."""
    try:
        return ray.get_actor(NAME, namespace=NAMESPACE)
    except ValueError:
        return None


def answered() -> list[AnsweredClaim]:
    """The claims of all sweeps of the connected Ray, the oldest first; [] where none has claimed."""
    divider = found()
    if divider is None:
        return []
    try:
        claims: list[AnsweredClaim] = ray.get(divider.claims.remote(), timeout=ANSWERS_S)
    except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):  # the sweeps start it anew
        return []
    return claims


def listed() -> list[SharedSweep]:
    """The sweeps of the connected Ray: those that run, then those that wait, in their order."""
    pcs = {node.id: node.hostname for node in nodes.listed()}
    return in_order(answered(), pcs, time.time())


def started(*, is_on_this_pc: bool) -> Any:
    """The divider of the connected Ray, started on its head where there is none. It outlives this job.

    Args:
        is_on_this_pc: whether that Ray is one of this PC alone, where this job may start its processes by a
            command that ends with it.
    """
    head = next(node for node in nodes.living() if node.is_head)
    apart = {"py_executable": shlex.quote(sys.executable)} if is_on_this_pc else {}  # for a shell
    return (
        ray.remote(PlaceDivider)
        .options(
            name=NAME,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            scheduling_strategy=nodes.on(head.id),
            runtime_env=apart or None,
        )
        .remote()
    )
