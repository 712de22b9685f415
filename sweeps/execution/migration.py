"""Move trials off PCs that leave, or that can't train.

A process on such a PC ends when its trial has ended, when the checkpoint of the epoch at hand is written,
when it has no trial for a moment (Tune keeps one for the next), or when time is up. Tune then finds it lost,
frees its place and starts the trial anew, ahead of younger ones, and it goes on from that checkpoint: no
scheduler sees a pause, so it makes no difference which one judges.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.result import SHOULD_CHECKPOINT

from sweeps.cluster import placement
from sweeps.cluster.membership import Membership
from sweeps.execution.driver import Driver

IDLE_S = 1.0
"""That a process may be without a trial: Tune takes one that is kept for the next in its next turn."""


@dataclass
class Process:
    """One in which trials train, one after the other."""

    handle: Any
    location: Any
    """What it answers: Ray's id of its PC, and the placement group that holds its place there."""
    trial: Trial
    away_then: frozenset[str] = frozenset()
    """Where nothing was to run when its trial began."""
    idle_since: float | None = None
    is_saved: bool = False
    """Whether a checkpoint of what its trial has trained was written, since it is to go."""
    node: str = ""
    nodes: frozenset[str] = frozenset()
    """Where all workers of its trials are."""
    group: Any = None

    def locate(self) -> bool:
        """Hear where it is; False while it has not answered, or where it never will."""
        if not self.node and ray.wait([self.location], timeout=0)[0]:
            with contextlib.suppress(ray.exceptions.RayError):
                self.node, self.group = ray.get(self.location)
                held = ray.util.placement_group_table(self.group)["bundles_to_node_id"] if self.group else {}
                self.nodes = frozenset({self.node, *held.values()})
        return bool(self.node)

    @property
    def has_trial(self) -> bool:
        """Whether Tune has it at work, or has just given it a trial."""
        return bool(self.trial.temporary_state.ray_actor == self.handle)


class Mover(Callback):
    """Ends processes that are where they should not be, when the least is lost by it."""

    def __init__(self, driver: Driver, membership: Membership) -> None:
        self.moved: Counter[int] = Counter()
        """Times that a trial was taken off a PC: no failure of its own."""
        self._driver, self._membership = driver, membership
        self._processes: dict[Any, Process] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Tuner pickles all that it is given; a copy knows no process."""
        return Callback, ()

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Learn where a trial trains. A process that is to go, and got another one, ends before it begins."""
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
        """Ask for a checkpoint where the trial can't stay."""
        if self.is_away(trial) and not result.get("done"):
            result[SHOULD_CHECKPOINT] = True

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """It may go now, unless the checkpoint is its last word: Tune is about to say."""
        if (process := self._of(trial)) is not None and self.is_away(trial):
            process.is_saved = True

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Look who leaves, and end what can go now."""
        if news := self._membership.news():
            self._processes = {h: p for h, p in self._processes.items() if self._membership.may_have(p.node)}
            self._tell(news)
        if not self._membership.away:
            return
        for process in list(self._processes.values()):
            if process.locate() and process.nodes & self._membership.away and self._may_end(process):
                self._end(process)

    def is_away(self, trial: Trial) -> bool:
        """Whether the PC that a trial trains on is to be left."""
        process = self._of(trial)
        return process is not None and process.locate() and bool(process.nodes & self._membership.away)

    def node_of(self, trial: Trial) -> str:
        """Ray's id of the PC that a trial trains on; "" where that is not known."""
        process = self._of(trial)
        return process.node if process is not None and process.locate() else ""

    def nodes_of(self, trial: Trial) -> frozenset[str]:
        """Of all PCs that it trains on."""
        process = self._of(trial)
        return process.nodes if process is not None and process.locate() else frozenset()

    def _tell(self, news: Sequence[str]) -> None:
        for line in news:
            self._driver.say(line)
        if not placement.most(self._driver.config, self._membership.pcs, self._driver.gpus_per_trial):
            self._driver.say("No trial fits on the PCs that are left: the sweep waits for more PCs.")

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
        """Give its place back, with which Ray ends it: where Tune keeps it for later, it holds its place."""
        if process.has_trial:
            self.moved[process.trial.config["number"]] += 1
        del self._processes[process.handle]
        ray.util.remove_placement_group(process.group)
