"""Move trials off PCs that leave, or that can't train.

The process on such a PC is ended when its trial has ended, when the checkpoint of the current epoch is
written, when it has had no trial for a moment (Tune keeps a process for the next trial), or at the deadline.
Tune then finds it lost, frees its resources and starts the trial again, before younger ones, from that
checkpoint. No scheduler sees a pause, so this works with any of them.

A PC lost without notice: `recorder.on_trial_error`.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import ray
from ray.tune.experiment import Trial
from ray.tune.result import SHOULD_CHECKPOINT

from sweeps.cluster import placement
from sweeps.cluster.membership import Membership
from sweeps.execution.driver import Driver, DriverCallback

IDLE_S = 1.0
"""For Tune to give a process that it keeps the next trial."""


@dataclass
class Process:
    """A process that trains trials, one after another."""

    handle: Any
    location: Any
    """A Ray reference to the id of its PC and to its placement group."""
    trial: Trial
    away_then: frozenset[str] = frozenset()
    """PCs on which nothing was to run when its trial began."""
    idle_since: float | None = None
    is_saved: bool = False
    """Whether a checkpoint was written since it is to be moved."""
    node: str = ""
    """Ray's id of its PC; "" while that is not known."""
    nodes: frozenset[str] = frozenset()
    """Of all workers of its trials."""
    group: Any = None

    def locate(self) -> bool:
        """Find out its PC; False while that is not known."""
        if not self.node and ray.wait([self.location], timeout=0)[0]:
            with contextlib.suppress(ray.exceptions.RayError):
                self.node, self.group = ray.get(self.location)
                held = ray.util.placement_group_table(self.group)["bundles_to_node_id"] if self.group else {}
                self.nodes = frozenset({self.node, *held.values()})
        return bool(self.node)

    @property
    def has_trial(self) -> bool:
        """Whether it trains a trial, or Tune has just given it one."""
        return bool(self.trial.temporary_state.ray_actor == self.handle)


class Mover(DriverCallback):
    """Ends processes on PCs where nothing is to run, each when the least is lost by it."""

    def __init__(self, driver: Driver, membership: Membership) -> None:
        self.moved: Counter[int] = Counter()
        """By trial, how often it was moved to another PC: no failure of its own."""
        self._driver, self._membership = driver, membership
        self._processes: dict[Any, Process] = {}

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Note where a trial trains; end a process at once that got another trial on a PC that leaves."""
        # Tune has no public name for the process of a trial (its own PBT goes by `temporary_state`, too).
        handle: Any = trial.temporary_state.ray_actor
        if (process := self._processes.get(handle)) is None:
            process = self._processes[handle] = Process(handle, handle.location.remote(), trial)
        process.trial, process.idle_since, process.is_saved = trial, None, False
        process.away_then = self._membership.away
        if process.nodes & process.away_then:
            self._end(process)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Ask for a checkpoint of a trial that is to be moved."""
        if self._is_away(trial) and not result.get("done"):
            result[SHOULD_CHECKPOINT] = True

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Allow the end of a process whose trial is saved."""
        if (process := self._of(trial)) is not None and self._is_away(trial):
            process.is_saved = True

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Print which PCs leave, and end what can be ended now."""
        membership = self._membership
        if news := membership.news():
            self._processes = {h: p for h, p in self._processes.items() if membership.may_have(p.node)}
            for line in news:
                self._driver.say(line)
            if not placement.most(self._driver.config, membership.pcs, self._driver.gpus_per_trial):
                self._driver.say("No PC that is left has room for a trial: the sweep waits for more PCs.")
        if not membership.away:
            return
        for process in list(self._processes.values()):
            if process.locate() and process.nodes & membership.away and self._may_end(process):
                self._end(process)

    def node_of(self, trial: Trial) -> str:
        """Ray's id of the PC that a trial trains on; "" while that is not known."""
        process = self._of(trial)
        return process.node if process is not None and process.locate() else ""

    def nodes_of(self, trial: Trial) -> frozenset[str]:
        """The same of all its workers."""
        process = self._of(trial)
        return process.nodes if process is not None and process.locate() else frozenset()

    def _is_away(self, trial: Trial) -> bool:
        return bool(self.nodes_of(trial) & self._membership.away)

    def _of(self, trial: Trial) -> Process | None:
        return self._processes.get(trial.temporary_state.ray_actor)

    def _may_end(self, process: Process) -> bool:
        if not process.has_trial:
            now = time.monotonic()
            process.idle_since = process.idle_since or now
            return now > process.idle_since + IDLE_S
        ends_at = [self._membership.deadlines.get(node, 0) for node in process.nodes]
        is_late = any(0 < time_s < time.time() for time_s in ends_at)
        return process.is_saved or is_late or bool(process.nodes & process.away_then)

    def _end(self, process: Process) -> None:
        """Remove its placement group, with which Ray ends it: a process that Tune keeps holds the group."""
        if process.has_trial:
            self.moved[process.trial.config["number"]] += 1
        del self._processes[process.handle]
        ray.util.remove_placement_group(process.group)
