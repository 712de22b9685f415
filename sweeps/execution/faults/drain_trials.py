"""Move trials off PCs that leave, or that can't train.

A trial on such a PC is asked to leave at its next step; it is requeued, and continues on another PC from the
checkpoint that it writes. Its process is ended when it has had no trial for a moment (Tune keeps a process
for the next trial), or at the deadline: Tune then finds it lost, and starts the trial again from the
checkpoint before. No scheduler sees a pause, so this works with any of them.

A PC lost without notice: `tune_callback.on_trial_error`.
"""

from __future__ import annotations

import time
from typing import Any

import ray
from ray.tune.experiment import Trial

from sweeps.execution.run_context import DriverCallback, RunContext
from sweeps.execution.trial_actors import TrialActor, TrialActors
from sweeps.ray_cluster import placement
from sweeps.ray_cluster.membership import Membership

IDLE_S = 1.0
"""For Tune to give a process that it keeps the next trial."""


class DrainTrials(DriverCallback):
    """Ends processes on PCs where nothing is to run, each when the least is lost by it."""

    def __init__(self, context: RunContext, membership: Membership, processes: TrialActors) -> None:
        self._context, self._membership, self._processes = context, membership, processes

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """End a process at once that got another trial on a PC that leaves."""
        if (process := self._processes.actor_of(trial)) is None:
            return
        process.away_then = self._membership.away
        if process.nodes & process.away_then:
            self._end(process)

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Print which PCs leave, and end what can be ended now."""
        membership = self._membership
        if news := membership.news():
            for process in self._processes.all():
                process.is_gone = not membership.may_have(process.node)
            for line in news:
                self._context.say(line)
            if not placement.most(self._context.config, membership.pcs, self._context.gpus_per_trial):
                self._context.say("No PC that is left has room for a trial: the sweep waits for more PCs.")
        if not membership.away:
            return
        for process in self._processes.all():
            if not process.locate() or not process.nodes & membership.away:
                continue
            if self._may_end(process):
                self._end(process)
            elif process.has_trial:
                self._processes.ask_to_leave([process])

    def _may_end(self, process: TrialActor) -> bool:
        if not process.has_trial:
            now = time.monotonic()
            process.idle_since = process.idle_since or now
            return now > process.idle_since + IDLE_S
        ends_at = [self._membership.deadlines.get(node, 0) for node in process.nodes]
        is_late = any(0 < time_s < time.time() for time_s in ends_at)
        return is_late or bool(process.nodes & process.away_then)

    def _end(self, process: TrialActor) -> None:
        """Remove its placement group, with which Ray ends it: a process that Tune keeps holds the group."""
        process.is_gone = process.was_ended = True
        ray.util.remove_placement_group(process.group)
