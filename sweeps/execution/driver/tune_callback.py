"""Tune callback of the driver: writes epochs and ends of trials to the record, has trials requeued that can't
go on (`execution/faults/requeue.py`), decides which checkpoints stay."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from types import ModuleType
from typing import Any

from ray.exceptions import ActorUnschedulableError, RayActorError
from ray.tune.experiment import Trial
from ray.tune.result import SHOULD_CHECKPOINT

from sweeps.analysis.tables import write_tables
from sweeps.cluster import broadcast
from sweeps.common.errors import reason_of
from sweeps.common.time_share import TimeShare
from sweeps.execution.driver.gpu_sharing import Sharing
from sweeps.execution.faults import first_failures
from sweeps.execution.faults.quarantine import Quarantine
from sweeps.execution.faults.requeue import Requeue, error_of
from sweeps.execution.output.trial_logs import TrialLogs
from sweeps.execution.run_context import DriverCallback, RunContext
from sweeps.execution.trial_actors import TrialActors
from sweeps.record.journal import RecordLost
from sweeps.record.trials import BAD, ENDED_WELL, STOPPED, Status
from sweeps.search.record_searcher import RecordSearcher
from sweeps.storage import retention
from sweeps.storage.protocol import StorageError
from sweeps.trial.job import SAVED

TABLES_EVERY_S, TABLES_SHARE = 60, 0.005
"""Seconds between two writings of the tables, at least, and the share of the driver's time that they take:
tables grow with the sweep. With those that are written at its end it is at most 1 %."""
NOT_THERE = "a checkpoint that it wrote is not there"
"""Said of a trial and of its PC, where neither has told that it could not be written."""


class TuneCallback(DriverCallback):
    """The one writer of the record while trials run.

    Args:
        driver: of the sweep.
        searcher: proposes a requeued trial again.
        scheduler: decides whether a paused trial was stopped.
        processes: of the trials.
        quarantine: of the PCs of a cluster; None on a PC by itself.
        sharing: of the GPUs, where it is measured how many trials share one.
        clock: seconds, from any moment.
    """

    def __init__(
        self,
        driver: RunContext,
        searcher: RecordSearcher,
        scheduler: ModuleType,
        processes: TrialActors,
        quarantine: Quarantine | None = None,
        sharing: Sharing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver, self._config = driver, driver.config
        self._record, self._storage = driver.record, driver.plan.storage
        self._searcher, self._scheduler = searcher, scheduler
        self._sharing = sharing
        self._logs = TrialLogs(driver.plan.folder, driver.say)
        self._requeue = Requeue(driver, searcher, processes, quarantine)
        self._save_faults: dict[int, dict[str, Any]] = {}
        self._writing_tables = TimeShare(TABLES_SHARE, TABLES_EVERY_S, TABLES_EVERY_S, clock)
        self._turn = ExitStack()

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Wait while the disk is almost full; count the trials that fit now. What is written in a turn of
        Tune's loop (a trial's last epoch, its end, the next start) reaches the disk once, at its end."""
        self._driver.disk.wait(self._driver.say, lambda: self._driver.end.is_due)
        sharing = self._sharing
        self._searcher.slots = self._driver.slots(sharing.gpus if sharing else self._driver.gpus_per_trial)
        self._turn.enter_context(self._record.together())

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Write the epoch; ask for the weights of a trial that ends among the best."""
        number = trial.config["number"]
        with self._record.together():
            if "place" in result:  # not where the process can't load PyTorch
                self._logs.note_place(self._record.trials[number], result["place"], result.get("epoch"))
                self._record.place(number, result["place"])
            self._logs.append(self._record.trials[number], result.pop("output", ""))
            if "failures" in result:  # not where the process ends its trial before it has begun
                self._record.note_failures(number, result["failures"])
            for notice in result.pop("notices", []):
                # Of the model, every trial says the same.
                if not any(notice in each.notices for each in self._record.trials):
                    self._driver.say(f"Trial {number}: {notice}")
                self._record.notice(number, notice)
            if "epoch" in result:
                epoch, score, metrics = result["epoch"], result["score"], result["metrics"]
                self._record.report(number, epoch, score, metrics, result["seconds"], result["costs"])
                if not result["has_test"]:
                    self._record.note_without_test(self._record.trials[number].trainable)
        if (
            result["done"]
            and not {"unfit", "left"} & result.keys()
            and result.get("status") in (None, "finished")
        ):
            result[SHOULD_CHECKPOINT] = self._is_to_stay(number)
        elif self._record.is_to_stop(number):
            if result.get("left"):
                result[SHOULD_CHECKPOINT] = self._is_to_stay(number)
            elif not result["done"] and self._lacks_weights(number):  # it may hang before it can leave
                result[SHOULD_CHECKPOINT] = True

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Note the size of a checkpoint, or why it could not be written."""
        number, checkpoint = trial.config["number"], trial.latest_checkpoint_result
        self._driver.disk.measure(number)
        saved = checkpoint.metrics.get(SAVED, {}) if checkpoint is not None else {}
        if "reason" in saved:
            self._save_faults[number] = saved
        elif saved:
            self._record.note_checkpoint(number, saved["bytes"])

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Write how it ended. Tune swallows what is raised here for a paused trial."""
        try:
            self._write_end(trial)
        except (RecordLost, OSError) as error:
            self._driver.end.stop("lost", str(error))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Requeue a trial whose process was lost, or write that it failed.

        Where a process can't even start on a PC by itself the sweep ends: the next one will not start either.
        """
        number, error = trial.config["number"], error_of(trial)
        if isinstance(error, ActorUnschedulableError):  # its PC was left out before its process started there
            return self._searcher.requeue(number)
        if self._requeue.after_failed_start(trial, error):
            return None
        if not isinstance(error, RayActorError):  # of Tune's own, in the driver
            reason, text = reason_of(error), str(error)
        elif error.actor_init_failed and not self._record.has_epochs:
            cause = broadcast.cause(error)
            return self._driver.end.stop("error", f"no trial can start on a worker: {cause}")
        else:
            reason, text = self._requeue.after_lost_process(trial, error)
        if not reason:
            return self._logs.append(self._record.trials[number], text)
        self._end(number, "failed", reason, text)
        return self._drop_checkpoints(number)

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Sync the record; write the tables where they are due."""
        self._requeue.overdue_starts(trials)
        self._turn.close()
        self._driver.tell_unmet()
        if self._writing_tables.is_due():
            with self._writing_tables.taken():
                write_tables(self._record, self._driver.plan.folder)

    def close(self) -> None:
        """Sync the record where a turn was interrupted."""
        self._turn.close()

    def _write_end(self, trial: Trial) -> None:
        """Write how a trial ended, or requeue it."""
        number, result = trial.config["number"], trial.last_result
        if "unfit" in result:
            reason, at = result["unfit"], result["at"]
            why = f"trial {number} can't continue on {at['pc']}: {reason}"
            return self._requeue.elsewhere(trial, reason, at["node"], or_else=why)
        is_stopped = self._record.is_to_stop(number)
        # A trial that is to stop and has a position to save is ended below.
        if "left" in result and not (is_stopped and result["left"]):
            fault = self._save_faults.pop(number, None)
            return self._requeue.after_leaving(number, result["left"], fault)
        if not result.get("done") and not is_stopped and not self._was_stopped_in_pause(number):
            return None
        if self._sharing and self._sharing.is_to_requeue(trial):
            return self._searcher.requeue(number)
        reached_end = result.get("epoch") == self._config.max_epochs
        otherwise: Status = "stopped" if is_stopped else "pruned"
        status: Status = result.get("status") or ("finished" if reached_end else otherwise)
        reason = result.get("reason", STOPPED if status == "stopped" else "")
        if result.get("is_out_of_memory"):
            status, reason = "infeasible", self._requeue.after_out_of_memory(number, result)
            if not reason:
                return self._logs.append(self._record.trials[number], result.pop("traceback", ""))
        if status in ENDED_WELL and self._lacks_weights(number):
            fault = self._save_faults.get(number, {"reason": NOT_THERE, "is_of_storage": True})
            if fault["is_of_storage"]:
                why = f"the weights of trial {number} can't be written: {fault['reason']}"
                return self._requeue.elsewhere(trial, fault["reason"], fault.get("node", ""), or_else=why)
            status, reason = "failed", f"its weights can't be saved: {fault['reason']}"
        before = retention.kept(self._config, self._record, self._storage)
        self._end(number, status, reason, result.pop("traceback", ""))
        self._drop_checkpoints(number, before)
        if result.get("is_user_error") and not self._record.has_epochs:
            self._driver.end.stop("error", result["reason"])
        return None

    def _was_stopped_in_pause(self, number: int) -> bool:
        """Whether the scheduler has stopped a paused trial, and not the end of the sweep."""
        last = max(self._record.trials[number].epochs, default=0)
        ends_at = getattr(self._scheduler, "ends_at", None)
        return ends_at is not None and ends_at(self._config, self._record, number, last)

    def _lacks_weights(self, number: int) -> bool:
        return retention.lacks_weights(self._config, self._record, self._storage, number)

    def _is_to_stay(self, number: int) -> bool:
        return retention.would_be_kept(self._config, self._record, self._storage, number)

    def _end(self, number: int, status: Status, reason: str, traceback: str) -> None:
        """Write the end of a trial, after its traceback, or its reason, in the log."""
        in_short = f"[{status}: {reason}]\n" if status in BAD else ""
        self._logs.append(self._record.trials[number], traceback or in_short)
        self._record.end(number, status, reason, self._logs.path(number))
        if status == "failed" and (why := first_failures.why_to_stop(self._driver)):
            self._driver.end.stop("lost", why, can_save=True)

    def _drop_checkpoints(self, ended: int, before: Collection[int] = ()) -> None:
        """Of a trial that ended all but its newest checkpoint, and all of each trial whose weights were kept
        before and are not now."""
        try:
            retention.drop(self._config, self._record, self._storage, ended, before)
        except StorageError as error:  # they take room, and a resume removes them
            self._driver.say(f"Old checkpoints can't be removed: {error}")
