"""What happens to a trial that can't go on as it is: its process or PC was lost, or can't train it, or its
memory ran out.

It is requeued: the searcher proposes it again, and it continues at its last checkpoint. None of these counts
against --max-failures.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict

from ray.exceptions import RayActorError
from ray.tune.experiment import Trial

from sweeps.common.formatting import GB, count, pairs
from sweeps.execution.faults.away_pcs import AwayPCs
from sweeps.execution.run_context import RunContext
from sweeps.execution.trial_actors import TrialActor, TrialActors
from sweeps.ray_cluster import nodes
from sweeps.record.sweep_info import Outcome
from sweeps.search.search_method import RecordSearcher
from sweeps.storage.protocol import StorageError
from sweeps.trial import output
from sweeps.trial.messages import EARLIER_ERROR, OutOfMemory
from sweeps.trial.output import Loss

MOST_LOST_PROCESSES = 10
"""Processes that a trial may lose (a PC switched off, memory exhausted) before it counts as failed: some
trials kill theirs."""
MOST_INSTANT = 2
"""Processes that it may lose in the same way without an epoch in between: each next one would end so, too."""
MOST_SPLITS = 3
"""Times that the batch of a trial is split further, each time that it runs out of memory, before it counts as
infeasible: then a step takes at least eight micro-batches."""


class Requeue:
    """Requeues trials, and knows when not to."""

    def __init__(
        self, context: RunContext, searcher: RecordSearcher, processes: TrialActors, away_pcs: AwayPCs
    ) -> None:
        self._context, self._searcher, self._away_pcs = context, searcher, away_pcs
        self._processes = processes
        self._losses: defaultdict[tuple[int, int], list[tuple[int, str]]] = defaultdict(list)
        """By trial and attempt, for each process that it lost the number of epochs by then, and why."""

    def after_lost_process(self, trial: Trial, error: Exception) -> tuple[str, str]:
        """Requeue a trial whose process was lost, or has not started, and say so.

        Returns:
            Why the trial has failed instead, or ""; what its process printed last.
        """
        number = trial.config["number"]
        process, hung = self.process_of(trial, error), ""
        if process is not None and process.ended_for is not None:
            hung, process.ended_for = process.ended_for, ""
            if not hung:
                self._searcher.requeue(number)
                return "", ""
        is_of_start = process is None and not self._context.cluster.is_alone
        if is_of_start and (why := self._away_pcs.leave_out_without_starts(trial)) is not None:
            self._searcher.requeue(number)
            if why:
                self._context.end.stop(Outcome.LOST, why, can_save=True)
            return "", ""
        loss = loss_of(process)
        if process is not None and self._was_in_preflight(number, process, hung or loss.why, loss):
            return "", loss.last_words
        if hung:
            return hung, loss.last_words
        if fault := self._fault(number, loss, is_its_own=not is_of_start):
            then = "it has failed"
        else:
            then = f"it is requeued and {self._continues(number)}"
            self._searcher.requeue(number)
        row = self._context.record.trials[number]
        pc = row.place.get("pc", "its PC")
        params = pairs(row.params)
        self._context.say(f"Trial {number} lost its process on {pc}: {loss.why}; {then} ({params})")
        return (
            fault,
            f"{loss.last_words.rstrip()}\n[its process on {pc} ended: {loss.why}; {then}]\n".lstrip(),
        )

    def process_of(self, trial: Trial, error: Exception) -> TrialActor | None:
        """The process of a trial that has failed; None where it had not started."""
        actor = error.actor_id if isinstance(error, RayActorError) else None
        return self._processes.last_of(trial, actor)

    def _was_in_preflight(self, number: int, process: TrialActor, why: str, loss: Loss) -> bool:
        """Requeue a trial whose process ended before it began the trial, and say so; whether it was so."""
        asked = process.preflight
        if loss.is_of_the_pc or not process.own.node or asked is None or asked.is_answered:
            return False
        self._searcher.requeue(number)
        pc = next((node.hostname for node in nodes.living() if node.id == process.own.node), "its PC")
        self._context.say(
            f"Preflight   its process on {pc} ended: {why}; such trials may end so, too: "
            f"{asked.point}. Trial {number} had not begun, and is requeued"
        )
        return True

    def after_leaving(self, number: int, position: str) -> None:
        """Note the position of the checkpoint with which a trial has left its run, and requeue it. Where the
        sweep stops or pauses, it is held."""
        record = self._context.record
        left = {"after_epoch": len(record.trials[number].epochs), "position": position}
        record.note_trial(number, left=left)
        self._searcher.requeue(number)

    def after_out_of_memory(self, number: int, end: OutOfMemory) -> str:
        """Requeue a trial with smaller micro-batches, and say so; or why it is infeasible."""
        record, why = self._context.record, ""
        before = record.trials[number].micro_batches
        if end.micro_batch is None:
            why = end.reason
        elif len(before) >= MOST_SPLITS:
            others = ", ".join(map(str, before[:-1]))
            why = f"out of memory with micro-batches of {others} and {count(before[-1], 'row')}"
        if why or end.micro_batch is None:
            self._context.say(f"Trial {number} is infeasible: {why}")
            return why
        notice = end.reason + ("" if before else end.caution)
        with record.together():
            record.note_trial(number, micro_batches=[*before, end.micro_batch])
            record.notice(number, notice)
        self._context.say(f"Trial {number}: {notice}")
        self._searcher.requeue(number)
        return ""

    def _continues(self, number: int) -> str:
        try:
            newest = max(self._context.plan.storage.epochs(number), default=0)
        except StorageError:
            return "continues from its last checkpoint"
        return f"continues after epoch {newest}" if newest else "begins its first epoch again"

    def _fault(self, number: int, loss: Loss, *, is_its_own: bool = True) -> str:
        """Why a trial that lost its process counts as failed; "" where it is to continue."""
        if loss.is_of_the_pc:
            return ""
        trial = self._context.record.trials[number]
        losses = self._losses[number, trial.attempt]
        losses.append((len(trial.epochs), loss.why))
        took_gb = max((epoch.costs.get("memory_gb", 0.0) for epoch in trial.epochs.values()), default=0.0)
        if loss.free_bytes < took_gb * GB:  # it has shown that it fits, and others leave it too little
            is_its_own = False
        if is_its_own and loss.why != EARLIER_ERROR and (times := losses.count(losses[-1])) >= MOST_INSTANT:
            return f"its process ended {times} times in the same epoch: {loss.why}"
        if (times := len(losses)) > MOST_LOST_PROCESSES:
            return f"its process was lost {times} times, at last: {loss.why}"
        return ""

    def elsewhere(self, trial: Trial, reason: str, node: str, or_else: str) -> None:
        """Leave out the PC on which a trial can't continue, and requeue the trial. Where that is impossible
        the sweep ends, and the trial stays unfinished, for a resume.

        Args:
            reason: why the PC is left out.
            or_else: why the sweep ends.
        """
        if self._away_pcs.leave_out(trial, reason, node):
            self._searcher.requeue(trial.config["number"])
        else:
            self._context.end.stop(Outcome.LOST, or_else)


def loss_of(process: TrialActor | None) -> Loss:
    """Why a process was lost: by what it printed last, by the kernel's count of processes that it killed for
    want of memory, and by whether the PC is still there."""
    if process is None or not process.locate():
        return Loss("it ended while it started")
    living = {node.id for node in nodes.living()}
    if process.own.node not in living:
        return Loss("its PC is lost", is_of_the_pc=True)
    return dataclasses.replace(output.how_ended(process.own), is_of_the_pc=not process.nodes <= living)
