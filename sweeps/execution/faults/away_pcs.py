"""PCs on which nothing is to run: those that leave, and those that can't train, which are left out.

A trial on such a PC is asked to leave at its next step; it is requeued, and continues on another PC from the
checkpoint that it writes. Its process is ended when it has had no trial for a moment (Tune keeps a process
for the next trial), or at the deadline: Tune then finds it lost, and starts the trial again from the
checkpoint before. No scheduler sees a pause, so this works with any of them.

A PC lost without notice: `tune_callback.on_trial_error`.
"""

from __future__ import annotations

import time
from typing import Any

from ray.tune.experiment import Trial

from sweeps.execution.run_context import DriverCallback, RunContext
from sweeps.execution.trial_actors import TrialActor, TrialActors
from sweeps.ray_cluster import nodes, placement
from sweeps.trial.messages import NotSaved, message_of, saved_of

NOTHING_STARTS = "no process of a trial starts there"


class AwayPCs(DriverCallback):
    """Moves trials off such PCs, and decides whether a fault is one of a PC, or of what all PCs use.

    A fault is one of a PC where another PC was seen to work since the last PC was left out: it began a trial,
    hence found its checkpoints and data, or it wrote a checkpoint.
    """

    def __init__(self, context: RunContext, processes: TrialActors) -> None:
        self._context, self._cluster, self._processes = context, context.cluster, processes
        self._begun: set[int] = set()
        self._unsaved: dict[str, list[tuple[Trial, str]]] = {}
        """By Ray's id of a PC, trials whose checkpoint it failed to write since its last success, and why."""
        self._in_doubt = ""
        """The PC that was left out last, while no other PC has been seen to work since."""

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Wait for its first epoch; end its process at once where that is kept on a PC that leaves."""
        self._begun.add(trial.config["number"])
        if (process := self._processes.actor_of(trial)) is not None:
            process.away_then = self._cluster.away
            if process.nodes & process.away_then:
                self._processes.end(process)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """With its first epoch a trial has shown that its PC works."""
        if trial.config["number"] in self._begun and message_of(result).report is not None:
            self._begun.discard(trial.config["number"])
            self._worked(trial)

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Leave out a PC that failed to write checkpoints again and again while this one was written."""
        saved = saved_of(trial.latest_checkpoint_result)
        if saved is None or not self._processes.node_of(trial):
            return
        if isinstance(saved, NotSaved):
            if saved.is_of_storage:
                self._unsaved.setdefault(saved.node, []).append((trial, saved.reason))
            return
        self._worked(trial)
        for each in self._processes.nodes_of(trial):
            self._unsaved.pop(each, None)
        for other, faults in list(self._unsaved.items()):
            if len(faults) >= 2 and not self._cluster.is_left_out(other):
                number, reason = faults[-1][0].config["number"], faults[-1][1]
                self._leave_out(other, number, f"no checkpoint can be written there: {reason}")

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Print which PCs leave, and end what can be ended now."""
        cluster = self._cluster
        if news := cluster.news():
            there = {"", *(node.id for node in cluster.there)}  # "": its PC is not known yet
            for process in self._processes.all():
                process.is_gone = process.own.node not in there
            for line in news:
                self._context.say(line)
            if not placement.most(self._context.config, cluster.pcs, self._context.gpus_per_trial):
                self._context.say("No PC that is left has room for a trial: the sweep waits for more PCs.")
        for process in self._processes.all() if cluster.away else ():
            if not process.locate() or not process.nodes & cluster.away:
                continue
            if self._may_end(process):
                self._processes.end(process)
            elif process.has_trial:
                self._processes.ask_to_leave([process])

    def _may_end(self, process: TrialActor) -> bool:
        if not process.has_trial:
            now = time.monotonic()
            process.idle_since = process.idle_since or now
            return now > process.idle_since + 1  # Tune may give a process that it keeps the next trial
        ends_at = [self._cluster.deadlines.get(node, 0) for node in process.nodes]
        is_late = any(0 < time_s < time.time() for time_s in ends_at)
        return is_late or bool(process.nodes & process.away_then)

    def leave_out(self, trial: Trial, reason: str, node: str) -> bool:
        """Place nothing more on the PC where a trial met a fault; "" means that of its first worker.

        False: the sweep must end, since that PC is the head or the only one that is left, or since the fault
        is not one of a PC.
        """
        node = node or self._processes.node_of(trial)
        if self._cluster.is_left_out(node):
            return True  # because of another trial there
        if self._in_doubt or not self._leave_out(node, trial.config["number"], reason):
            return False
        self._in_doubt = node
        return True

    def leave_out_without_starts(self, trial: Trial) -> str | None:
        """After the process of a trial did not start in a cluster: try one on each PC, and leave out those on
        which none starts. None where one starts on each; else why the sweep must end, "" where it goes on."""
        there = [pc for pc in self._cluster.there if not self._cluster.is_left_out(pc.id)]
        answers = nodes.ask(there, _do_nothing, timeout_s=60)
        faults = {pc: answer.fault for pc, answer in answers.items() if answer.fault and answer.is_there}
        for pc, fault in faults.items():
            if not self._leave_out(pc.id, trial.config["number"], f"{NOTHING_STARTS}: {fault}"):
                return f"no process of a trial starts on {pc.name}: {fault}"
        return "" if faults else None

    def _leave_out(self, node: str, number: int, reason: str) -> bool:
        """Leave a PC out where that is possible, and say so."""
        if notice := self._context.leave_out(node, reason):
            self._context.say(notice)
            self._context.record.notice(number, notice)
        return bool(notice)

    def _worked(self, trial: Trial) -> None:
        if (node := self._processes.node_of(trial)) and node not in self._cluster.away:
            self._in_doubt = ""


def _do_nothing() -> None:
    """A task that shows whether a process starts."""
