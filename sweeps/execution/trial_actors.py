"""The processes that train trials: on which PC each one is, and how to reach it between two epochs."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ray
from ray.tune.experiment import Trial

from sweeps.execution.run_context import DriverCallback
from sweeps.ray_cluster import nodes, ray_internals
from sweeps.trial import leave_request
from sweeps.trial.output import Introduction

AGAIN_S = 1.0
"""Between two requests to one process: it may have begun another trial just then, and missed the first."""


class Asked(NamedTuple):
    """The preflight that a process was asked for before its first trial."""

    findings: Any
    """A Ray reference to what `SweepTrial.preflight` returns."""
    point: str
    """In words."""

    @property
    def is_answered(self) -> bool:
        """Whether the process has ended it; False where it has ended itself before."""
        if not ray.wait([self.findings], timeout=0)[0]:
            return False
        try:
            ray.get(self.findings)
        except ray.exceptions.RayError as error:  # where it raised, it has ended
            return not isinstance(error, ray.exceptions.RayActorError)
        return True


@dataclass
class TrialActor:
    """A process that trains trials, one after another."""

    handle: Any
    introduction: Any
    """A Ray reference to what `SweepTrial.introduce` returns."""
    trial: Trial
    name: str
    """In the mailbox."""
    away_then: frozenset[str] = frozenset()
    """PCs on which nothing was to run when its trial began."""
    idle_since: float | None = None
    began_at: float = 0.0
    """When its trial began."""
    asked_at: float = -AGAIN_S
    """When it was asked last to leave its trial."""
    own: Introduction = field(default_factory=Introduction)
    """Without a PC while that is not known."""
    nodes: frozenset[str] = frozenset()
    """Of all workers of its trials."""
    is_gone: bool = False
    """Whether its PC has left, or it was ended on purpose."""
    ended_for: str | None = None
    """Why it was ended on purpose: what its trial fails for, or "" where that goes on in another process."""
    silent_s: float = 0.0
    """Seconds since its trial began or reported last."""
    told_at_s: float = math.inf
    """Silence after which the user is told."""
    leaves_in_s: float | None = None
    """Seconds in which it must have left a trial that the user stops; None where it was not asked to."""
    preflight: Asked | None = None
    """None once its trial has begun."""

    def locate(self) -> bool:
        """Find out its PC; False while that is not known."""
        if not self.own.node and ray.wait([self.introduction], timeout=0)[0]:
            with contextlib.suppress(ray.exceptions.RayError):
                self.own = ray.get(self.introduction)
                table = ray.util.placement_group_table(self.own.group) if self.own.group else {}
                self.nodes = frozenset({self.own.node, *table.get("bundles_to_node_id", {}).values()})
        return bool(self.own.node)

    @property
    def has_trial(self) -> bool:
        """Whether it trains a trial, or Tune has just given it one."""
        return bool(ray_internals.actor_of(self.trial) == self.handle)


class TrialActors(DriverCallback):
    """The processes of a run, as Tune starts them.

    Args:
        has_mailbox: whether some may be on other PCs.
    """

    def __init__(self, has_mailbox: bool = False) -> None:
        self._of: dict[Any, TrialActor] = {}
        self.not_left: Counter[int] = Counter()
        """By trial that the user stops, how often its process was ended because it had not left."""
        self.mailbox: Any = None
        """A `leave_request.Mailbox`; None where all processes are on this PC."""
        if has_mailbox:
            beside = nodes.on(nodes.here())
            actor = ray.remote(leave_request.Mailbox).options(num_cpus=0, scheduling_strategy=beside)
            self.mailbox = actor.remote()

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Note which process trains a trial."""
        handle = ray_internals.actor_of(trial)
        if (process := self._of.get(handle)) is None:
            name = uuid.uuid4().hex
            introduction = handle.introduce.remote(self.mailbox, name)
            process = self._of[handle] = TrialActor(handle, introduction, trial, name)
        elif process.ended_for:  # for a trial that has ended by itself meanwhile
            process.ended_for = ""
        process.trial, process.idle_since, process.asked_at = trial, None, -AGAIN_S
        process.began_at = time.monotonic()

    def all(self) -> list[TrialActor]:
        """All that may be there."""
        return [process for process in self._of.values() if not process.is_gone]

    def actor_of(self, trial: Trial) -> TrialActor | None:
        """The process that trains a trial."""
        return self._of.get(ray_internals.actor_of(trial))

    def last_of(self, trial: Trial, actor: str | None = None) -> TrialActor | None:
        """The process that trained a trial last, or was to train it, and may be gone.

        Args:
            actor: Ray's id of the process. Tune may give a trial a process that it kept, and does not know
                yet that it is gone.
        """
        known = reversed(self._of.values())
        return next((each for each in known if each.trial is trial or actor == each.own.actor != ""), None)

    def node_of(self, trial: Trial) -> str:
        """Ray's id of the PC that a trial trains on; "" while that is not known."""
        process = self.actor_of(trial)
        return process.own.node if process is not None and process.locate() else ""

    def nodes_of(self, trial: Trial) -> frozenset[str]:
        """The same of all its workers."""
        process = self.actor_of(trial)
        return process.nodes if process is not None and process.locate() else frozenset()

    def training(self) -> list[TrialActor]:
        """Those that have begun a trial."""
        return [process for process in self.all() if process.has_trial and process.locate()]

    def end(self, process: TrialActor, fault: str = "") -> None:
        """End a process at once, whatever it does; its trial fails for the fault. Without one it, or the next
        one that Tune keeps the process for, continues in another. A kept one holds its placement group."""
        process.is_gone, process.ended_for = True, fault
        # One without a trial may have ended long ago, and its id be that of another process.
        if process.has_trial and process.own.node == nodes.here():
            with contextlib.suppress(ProcessLookupError):  # a call of a library may hold all that Ray's needs
                os.kill(process.own.pid, signal.SIGKILL)
        ray.kill(process.handle)
        if process.own.group is not None:
            ray.util.remove_placement_group(process.own.group)

    def ask_to_leave(self, asked: Iterable[TrialActor]) -> None:
        """Ask processes to leave their trials at the next step; each one every `AGAIN_S` until it has."""
        now, here = time.monotonic(), nodes.here()
        for process in asked:
            if now < process.asked_at + AGAIN_S:
                continue
            process.asked_at = now
            if process.own.node == here:
                leave_request.send(process.own.pid)
            else:
                self.mailbox.ask.remote(process.name)
