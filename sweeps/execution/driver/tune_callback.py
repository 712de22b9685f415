"""Tune callback of the driver: writes epochs and ends of trials to the record, has trials requeued that can't
go on (`execution/faults/requeue.py`), decides which checkpoints stay."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ray.exceptions import RayActorError
from ray.tune.experiment import Trial
from ray.tune.result import DONE, SHOULD_CHECKPOINT

from sweeps.common.errors import reason_of, without_worker
from sweeps.execution.driver.gpu_sharing import Sharing
from sweeps.execution.faults.full_gpus import FullGpus
from sweeps.execution.faults.requeue import Requeue
from sweeps.execution.output.folder_files import TrialLogs, write_tables
from sweeps.execution.run_context import DriverCallback, RunContext
from sweeps.ray_cluster import nodes, ray_internals
from sweeps.record.journal import RecordLost
from sweeps.record.sweep_info import Outcome
from sweeps.record.trials import BAD, ENDED_WELL, Ending, Status
from sweeps.search.record_scheduler import PruningMethod
from sweeps.search.search_method import RecordSearcher
from sweeps.storage import retention
from sweeps.storage.disk_guard import TimeShare
from sweeps.storage.protocol import StorageError
from sweeps.trial.messages import (
    Diverged,
    Failed,
    Finished,
    Left,
    Message,
    NotSaved,
    OutOfMemory,
    Unfit,
    drop_recorded,
    message_of,
    saved_of,
)

TABLES_EVERY_S, TABLES_SHARE = 60, 0.005
"""Seconds between two writings of the tables, at least, and the share of the driver's time that they take:
tables grow with the sweep. With those that are written at its end it is at most 1 %."""
NOT_THERE = "a checkpoint that it wrote is not there"
"""Said of a trial and of its PC, where neither has told that it could not be written."""
UNDECIDED = ("unfinished", "infeasible")
"""Such a trial says nothing of the others, unless it has trained further than those that failed."""


class TuneCallback(DriverCallback):
    """The one writer of the record while trials run."""

    def __init__(
        self,
        context: RunContext,
        searcher: RecordSearcher,
        scheduler: type[PruningMethod],
        requeue: Requeue,
        full_gpus: FullGpus,
        sharing: Sharing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context, self._config = context, context.config
        self._record, self._storage = context.record, context.plan.storage
        self._searcher, self._scheduler, self._requeue = searcher, scheduler, requeue
        self._sharing, self._full_gpus = sharing, full_gpus
        self._logs = TrialLogs(context.plan.folder, context.say)
        self._save_faults: dict[int, NotSaved] = {}
        self._writing_tables = TimeShare(TABLES_SHARE, TABLES_EVERY_S, TABLES_EVERY_S, clock)
        self._tables_fault = ""
        self._turn = ExitStack()

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Wait while the disk is almost full. What is written in a turn of Tune's loop (a trial's last epoch,
        its end, the next start) reaches the disk once, at its end."""
        self._context.disk.wait(self._context.say, lambda: self._searcher.is_to_end() or self._context.is_due)
        self._turn.enter_context(self._record.together())

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Write that a paused trial continues; one that begins only to save its weights does not."""
        row = self._record.trials[trial.config["number"]]
        method = self._scheduler.for_record(self._config, self._record)
        if row.is_paused and method.decide(row.number, len(row.epochs)) == "CONTINUE":
            self._record.note_continued(row.number)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Write the epoch; ask for the weights of a trial that ends among the best."""
        number, message = trial.config["number"], message_of(result)
        with self._record.together():
            self._note(number, message)
        if result[DONE] and (message.end is None or isinstance(message.end, Finished)):
            result[SHOULD_CHECKPOINT] = self._is_to_stay(number)
        elif self._record.is_to_stop(number):
            if isinstance(message.end, Left) and message.end.position:
                result[SHOULD_CHECKPOINT] = self._is_to_stay(number)
            elif not result[DONE] and self._lacks_weights(number):  # it may hang before it can leave
                result[SHOULD_CHECKPOINT] = True
        drop_recorded(result)

    def _note(self, number: int, message: Message) -> None:
        """Write what a process tells of its trial to the record and the trial's log."""
        row, report = self._record.trials[number], message.report
        if message.place:
            self._logs.note_place(row, message.place, report.epoch if report else None)
            self._record.place(number, message.place)
        self._logs.append(row, message.output)
        if message.failures is not None:
            self._record.note_trial(number, failures=message.failures)
        for notice in message.notices:
            # Of the model, every trial says the same.
            if not any(notice in each.notices for each in self._record.trials):
                self._context.show(f"Trial {number}: {notice}")
            self._record.notice(number, notice)
        if report is not None:
            epoch, seconds, costs = report.epoch, report.seconds, report.costs
            self._record.report(number, epoch, report.score, report.metrics, seconds, costs)
            # One that ends while its sweep gets more epochs waits for nothing here.
            if not isinstance(message.end, Finished) and self._context.plan.waits(self._record, row):
                self._record.note_pause(number)
            if report.schedule is not None:
                self._record.note_trial(number, schedule=report.schedule)
            if not message.has_test:
                self._record.note_without_test(row.trainable)

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Note the size of a checkpoint, or why it could not be written."""
        number, checkpoint = trial.config["number"], trial.latest_checkpoint_result
        saved = saved_of(checkpoint)
        if isinstance(saved, NotSaved):
            self._save_faults[number] = saved
        elif saved is not None:
            self._save_faults.pop(number, None)  # one before matters no more
            if self._record.trials[number].status == "unfinished":
                self._record.note_trial(number, checkpoint_bytes=saved.size_bytes)
        if checkpoint is not None:
            drop_recorded(checkpoint.metrics)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Write how it ended. Tune swallows what is raised here for a paused trial."""
        try:
            self._write_end(trial)
        except (RecordLost, OSError) as error:
            self._context.end.stop(Outcome.LOST, str(error))
        # Of each number in its results Tune would keep 1.6 kB as long as the sweep runs.
        trial.metric_analysis.clear()
        trial.metric_n_steps.clear()

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Requeue a trial whose process was lost, or write that it failed.

        Where a process can't even start on a PC by itself the sweep ends: the next one will not start either.
        """
        number, error = trial.config["number"], ray_internals.error_of(trial)
        if not isinstance(error, RayActorError):
            if self._requeue.process_of(trial, error) is not None:  # it is Tune's own, in the driver
                return self._end(number, "failed", reason_of(error), str(error))
        elif error.actor_init_failed and self._context.cluster.is_alone and not self._record.has_epochs:
            cause = nodes.cause(error)
            return self._context.end.stop(Outcome.ERROR, f"no trial can start on a worker: {cause}")
        reason, text = self._requeue.after_lost_process(trial, error)
        if not reason:
            return self._logs.append(self._record.trials[number], text)
        return self._end(number, "failed", reason, text)

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Sync the record; write the tables where they are due."""
        self._turn.close()
        self._context.tell_unmet()
        if self._writing_tables.is_due():
            with self._writing_tables.taken():
                fault = write_tables(self._record, self._context.plan.folder)
            if fault and fault != self._tables_fault:  # a program on another PC has one open, say
                self._context.say(fault)
            self._tables_fault = fault

    def close(self) -> None:
        """Sync the record where a turn was interrupted."""
        self._turn.close()

    def _write_end(self, trial: Trial) -> None:
        """Write how a trial ended, or requeue it."""
        number, result = trial.config["number"], trial.last_result
        if self._searcher.is_requeued(number):  # it has given up its place before it trained
            return None
        end, is_stopped = message_of(result).end, self._record.is_to_stop(number)
        if isinstance(end, Unfit):
            why = f"trial {number} can't continue on {end.pc}: {end.reason}"
            return self._requeue.elsewhere(trial, end.reason, end.node, or_else=why)
        # A trial that is to stop and has a position to save is ended below.
        if isinstance(end, Left) and not (is_stopped and end.position):
            is_saved = self._save_faults.pop(number, None) is None
            return self._requeue.after_leaving(number, end.position if is_saved else "")
        if not result.get(DONE) and not is_stopped and not self._was_stopped_in_pause(number):
            return None
        if isinstance(end, OutOfMemory) and self._full_gpus.take(trial, end):
            return self._logs.append(self._record.trials[number], end.traceback)
        if self._sharing and self._sharing.is_to_requeue(trial):
            return self._searcher.requeue(number)
        traceback = ""
        status: Status
        match end:
            case Finished(reason=reason):
                status = "finished"
            case Diverged(reason=reason):
                status = "diverged"
            case Failed(reason=reason, traceback=traceback):
                status = "failed"
            case OutOfMemory(traceback=traceback):
                status, reason = "infeasible", self._requeue.after_out_of_memory(number, end)
                if not reason:
                    return self._logs.append(self._record.trials[number], traceback)
            case _:
                stopped = self._record.why_stopped(number)
                status, reason = ("stopped", stopped) if is_stopped else ("pruned", "")
        if status in ENDED_WELL and self._lacks_weights(number):
            fault = self._save_faults.get(number, NotSaved(reason=NOT_THERE))
            if fault.is_of_storage:
                why = f"the weights of trial {number} can't be written: {fault.reason}"
                return self._requeue.elsewhere(trial, fault.reason, fault.node, or_else=why)
            status, reason = "failed", f"its weights can't be saved: {fault.reason}"
        self._end(number, status, reason, traceback)
        if isinstance(end, Failed) and end.is_user_error and not self._record.has_epochs:
            self._context.end.stop(Outcome.ERROR, end.reason)
        return None

    def _was_stopped_in_pause(self, number: int) -> bool:
        """Whether the scheduler has stopped a paused trial, and not the end of the sweep."""
        last = max(self._record.trials[number].epochs, default=0)
        return self._scheduler.ends_at(self._config, self._record, number, last)

    def _lacks_weights(self, number: int) -> bool:
        try:
            return self._context.plan.lacks_weights(self._record, number)
        except StorageError:  # they were written with more patience, or the process has told of the fault
            return number in self._save_faults

    def _is_to_stay(self, number: int) -> bool:
        return retention.would_be_kept(self._config, self._record, self._storage, number)

    def _end(self, number: int, status: Status, reason: str, traceback: str) -> None:
        """Write the end of a trial, after its traceback, or its reason, in the log."""
        in_short = f"[{status}: {reason}]\n" if status in BAD else ""
        self._logs.append(self._record.trials[number], traceback or in_short)
        log = self._logs.path(self._record.trials[number])
        if fault := self._context.plan.end_trial(self._record, number, Ending(status, reason), log):
            self._context.say(f"Old checkpoints can't be removed: {fault}")
        if status == "failed" and (why := why_first_failures_stop(self._context)):
            self._context.end.stop(Outcome.LOST, why, can_save=True)


def why_first_failures_stop(context: RunContext) -> str:
    """The error with which all trials so far have failed, at least three and as many as run at a time: the
    others would repeat it. "" where one has not, or too few have."""
    reasons, furthest, furthest_of_others = list[str](), 0, 0
    for trial in context.record.searched if not context.config.keep_going else ():
        if trial.status == "failed":
            reasons.append(trial.reason)
            furthest = max(furthest, len(trial.epochs))
        elif trial.status in UNDECIDED:
            furthest_of_others = max(furthest_of_others, len(trial.epochs))
        else:
            return ""
    few = len(reasons) < max(3, context.slots(context.gpus_per_trial))
    if few or furthest_of_others > furthest or len(set(map(_kind, reasons))) > 1:
        return ""
    return f"the first {len(reasons)} trials all failed: {reasons[-1]}. Add --keep-going to train on"


def _kind(reason: str) -> str:
    """An error without its worker and its numbers: sizes, addresses and steps differ from trial to trial."""
    return re.sub(r"0x[0-9a-f]+|\d[\d.,]*", "#", without_worker(reason))
