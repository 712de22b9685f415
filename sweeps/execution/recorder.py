"""What the driver writes while trials run: the record, the logs of failures, the tables.

It also says which checkpoints are written and which may go.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ray import cloudpickle
from ray.exceptions import RayActorError
from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.result import SHOULD_CHECKPOINT

from sweeps.analysis.tables import write_tables
from sweeps.common.formatting import count
from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.stopping import End
from sweeps.record.journal import RecordLost
from sweeps.record.record import Record
from sweeps.record.trials import Status
from sweeps.storage import retention
from sweeps.storage.base import DISK_IS_FULL, Storage, StorageError
from sweeps.storage.disk_guard import Disk
from sweeps.trial.job import SAVE_FAULT

TABLES_EVERY_S = 60
MOST_LOST_PROCESSES = 10
"""Processes that a trial may lose (a PC switched off, memory exhausted) before it counts as failed.
They are retried without counting against --max-failures, but not for ever: some trials kill theirs."""
EndsAt = Callable[[SweepConfig, Record, int, int], bool]
"""A scheduler's: whether the trial of a number, which reported this epoch, was stopped there."""


class PCs(Protocol):
    """What the keeper asks of those who look after the PCs of a cluster."""

    @property
    def moved(self) -> Counter[int]:
        """Times that a trial was taken off a PC."""

    def leave_out(self, trial: Trial, reason: str, node: str) -> bool:
        """Place nothing more on a PC of a trial; False: the sweep is to end."""


class Shares(Protocol):
    """What the keeper asks of those who give each trial its share of a GPU."""

    def begins_again(self, trial: Trial) -> bool:
        """Whether a trial that Tune has ended is to begin once more, with another share."""


class RecordKeeper(Callback):
    """The record's one writer while trials run; keeps the checkpoints that someone may need."""

    def __init__(
        self,
        config: SweepConfig,
        record: Record,
        folder: Path,
        storage: Storage,
        end: End,
        disk: Disk,
        say: Callable[[str], None],
        ends_at: EndsAt | None = None,
        begin_again: Callable[[int], bool] | None = None,
        pcs: PCs | None = None,
        shares: Shares | None = None,
    ) -> None:
        self.end = end
        self._ends_at = ends_at
        self._begin_again = begin_again
        self._pcs = pcs
        self._shares = shares
        self._lost_processes: Counter[int] = Counter()
        self._config = config
        self._record = record
        self._folder = folder
        self._storage = storage
        self._disk = disk
        self._say = say
        self._save_faults: dict[int, dict[str, Any]] = {}
        self._tables_written = time.monotonic()
        self._turn = contextlib.ExitStack()

    def __reduce__(self) -> tuple[Any, ...]:
        """Tuner pickles all that it is given; a copy has no terminal to speak to."""
        return Callback, ()

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Hold everything while the disk is about to be full. What is written in a turn of Tune's loop
        reaches the disk at its end, at once: a trial's last epoch, its end and the next trial's start."""
        self._disk.wait(self._say, self.end.stop_all)
        self._turn.enter_context(self._record.together())

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Write the epoch; ask for the weights of a trial that ends among the best."""
        number = trial.config["number"]
        with self._record.together():
            self._record.place(number, result["place"])
            for notice in result.pop("notices", []):
                self._say(f"Trial {number}: {notice}")
                self._record.notice(number, notice)
            if "epoch" in result:
                epoch, score, metrics = result["epoch"], result["score"], result["metrics"]
                self._record.report(number, epoch, score, metrics, result["seconds"], result["costs"])
                if not result["has_test"]:
                    self._record.note_without_test(self._record.trials[number].trainable)
        if result["done"] and "unfit" not in result and result.get("status") in (None, "finished"):
            result[SHOULD_CHECKPOINT] = self._is_to_stay(number)

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Learn how much space a checkpoint takes, or why it could not be written."""
        number, saved = trial.config["number"], trial.latest_checkpoint_result
        self._disk.measure(number)
        if saved is not None and (fault := saved.metrics.get(SAVE_FAULT)):
            self._save_faults[number] = fault

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Write how it ended. Tune swallows what is raised here of a trial that was paused."""
        try:
            self._write_end(trial)
        except (RecordLost, OSError) as error:
            self.end.stop("lost", str(error))

    def _write_end(self, trial: Trial) -> None:
        number, result = trial.config["number"], trial.last_result
        if "unfit" in result:  # not ended: it begins once more, on another PC or in a resume
            at = result["at"]
            if not self._goes_on_elsewhere(trial, result["unfit"], at["node"]):
                self.end.stop("lost", f"trial {number} can't go on on {at['pc']}: {result['unfit']}")
            return
        if not result.get("done") and not self._was_left_behind(number):
            return
        if self._shares is not None and self._shares.begins_again(trial) and self._begins_again(number):
            return
        reached_end = result.get("epoch") == self._config.max_epochs
        status: Status = result.get("status") or ("finished" if reached_end else "pruned")
        reason = result.get("reason", "")
        if status in ("finished", "pruned") and self._lacks_weights(number):
            fault = self._save_faults.get(number, {"reason": DISK_IS_FULL, "is_of_storage": True})
            if fault["is_of_storage"]:
                # Not ended: it begins once more, from the checkpoint that it has.
                if not self._goes_on_elsewhere(trial, fault["reason"], fault.get("node", "")):
                    why = f"the weights of trial {number} can't be written: {fault['reason']}"
                    self.end.stop("lost", why)
                return
            status, reason = "failed", f"its weights can't be saved: {fault['reason']}"
        log = self._write_log(number, result.pop("traceback", None))
        before = retention.kept(self._config, self._record, self._storage)
        self._record.end(number, status, reason, log)
        self._drop_checkpoints({number, *before})
        if result.get("is_user_error") and not self._anything_trained():
            self.end.stop("error", result["reason"])

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A process that can't even start will not start the next time either: end the sweep."""
        error = _error_of(trial)
        can_start = not (isinstance(error, RayActorError) and error.actor_init_failed)
        if not can_start and not self._anything_trained():
            cause = str(error).strip().splitlines()[-1]
            self.end.stop("error", f"no trial can start on a worker: {cause} (installed on every PC?)")

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Its process was lost once too often, or Tune could not go on with it.

        Tune gives a paused trial up when the process that it was to go on in is found dead: that one is
        begun once more, as by a resume.
        """
        number, error = trial.config["number"], str(_error_of(trial)).strip()
        self._lost_processes[number] += trial.run_metadata.num_failures
        lost = self._lost_processes[number] - (self._pcs.moved[number] if self._pcs else 0)
        is_lost = isinstance(_error_of(trial), RayActorError) and lost <= MOST_LOST_PROCESSES
        if is_lost and self._begins_again(number):
            return
        reason = f"its process was lost {count(lost, 'time')}, at last: {error.splitlines()[-1]}"
        self._record.end(number, "failed", reason, self._write_log(number, error))
        self._drop_checkpoints({number})

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Sync the record; write the tables every minute."""
        self._turn.close()
        if time.monotonic() - self._tables_written >= TABLES_EVERY_S:
            write_tables(self._record, self._folder)
            self._tables_written = time.monotonic()

    def close(self) -> None:
        """End a turn that was not ended."""
        self._turn.close()

    def _goes_on_elsewhere(self, trial: Trial, reason: str, node: str) -> bool:
        """Leave out the PC on which a trial can't go on, and begin it again; False: the sweep is to end."""
        if self._pcs is None or not self._pcs.leave_out(trial, reason, node):
            return False
        return self._begins_again(trial.config["number"])

    def _begins_again(self, number: int) -> bool:
        return self._begin_again is not None and self._begin_again(number)

    def _was_left_behind(self, number: int) -> bool:
        """Whether a trial that was paused has been stopped by its scheduler, not by the sweep's end."""
        last = max(self._record.trials[number].epochs, default=0)
        return self._ends_at is not None and self._ends_at(self._config, self._record, number, last)

    def _lacks_weights(self, number: int) -> bool:
        """Whether it is among the best and has no checkpoint of its best epoch."""
        best = self._record.trials[number].best_epoch(self._record.mode)
        if best is None or not self._is_to_stay(number):
            return False
        return max(self._storage.epochs(number), default=0) < best

    def _is_to_stay(self, number: int) -> bool:
        return retention.would_be_kept(self._config, self._record, self._storage, number)

    def _anything_trained(self) -> bool:
        return any(trial.epochs for trial in self._record.trials)

    def _write_log(self, number: int, text: str | None) -> str | None:
        if text is None:
            return None
        log = Path("logs") / f"trial_{number:04d}.log"
        trial = self._record.trials[number]
        content = (
            f"trainable {trial.trainable}\nparams {dict(trial.params)}\nplace {dict(trial.place)}\n{text}"
        )
        try:
            (self._folder / "logs").mkdir(exist_ok=True)
            (self._folder / log).write_text(content, encoding="utf-8", errors="backslashreplace")
        except OSError as error:  # Tune would take it for a lost process, and train the trial again
            self._say(f"The log of trial {number} can't be written: {error}")
            return None
        return str(log)

    def _drop_checkpoints(self, numbers: set[int]) -> None:
        """Of trials that ended: all but the newest one of each whose weights stay."""
        try:
            staying = retention.kept(self._config, self._record, self._storage)
            for number in numbers:
                if number not in staying:
                    self._storage.remove(number)
                    continue
                for epoch in self._storage.epochs(number)[1:]:
                    self._storage.remove(number, epoch)
        except StorageError as error:  # they take room, and a resume removes them
            self._say(f"Old checkpoints can't be removed: {error}")


def _error_of(trial: Trial) -> Exception | None:
    """What Tune wrote of a trial's last error. `Trial.get_pickled_error` looks for it in the storage,
    where Tune 2.60 has not put it yet."""
    file = trial.pickled_error_file
    if file is None or not Path(file).is_file():
        return None
    error: Exception = cloudpickle.loads(Path(file).read_bytes())
    return error
