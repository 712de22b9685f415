"""Build the Tuner and fit it: Tune runs the trials, the record hears of every epoch."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ray import cloudpickle, tune
from ray.exceptions import RayActorError
from ray.tune import Callback, Checkpoint, CheckpointConfig, FailureConfig, RunConfig, Stopper
from ray.tune.experiment import Trial
from ray.tune.result import SHOULD_CHECKPOINT

from sweeps import checkpoints, cluster
from sweeps.config import SweepConfig
from sweeps.disk import Disk
from sweeps.plan import Plan
from sweeps.progress import SweepReporter
from sweeps.record import Record, Status
from sweeps.results import write_tables
from sweeps.trial import Job, SweepTrial
from sweeps.words import count
from training.config import FitConfig

MOST_LOST_PROCESSES = 10
"""Processes that a trial may lose (a PC switched off, memory exhausted) before it counts as failed.
They are retried without counting against --max-failures, but not for ever: some trials kill theirs."""
TABLES_EVERY_S = 60
TUNE_FOLDER = "tune"
"""Ray's own state, of the present run: no resume reads it."""


def job_of(plan: Plan) -> Job:
    """What every trial of the sweep has in common."""
    config = plan.config
    fit = FitConfig(
        max_epochs=config.max_epochs,
        metric=str(config.metric),
        mode=config.mode or "max",
        precision=config.precision,
        seed=config.seed,
        threads=config.cpus_per_trial,
    )
    return Job(
        trainable=plan.trainable.__name__,
        fixed=dict(plan.space.fixed),
        folder=str(plan.folder),
        fit=fit,
        max_failures=config.max_failures,
        checkpoint_epochs=config.checkpoint_epochs,
    )


def fit(plan: Plan, record: Record, offered: cluster.Cluster) -> End:
    """Run the sweep, from where its record is, to its end, its time limit or Ctrl-C."""
    config = plan.config
    slots = cluster.slots(config, offered.pcs)
    end = End(config.time_budget_hours, record.used_s)
    disk = Disk(plan.folder, config.min_free_gb, slots)
    reporter = SweepReporter(config, record, disk)
    to_train = (config.num_trials or 0) - (len(record.trials) - len(record.live))
    if to_train > 0:
        shutil.rmtree(plan.folder / TUNE_FOLDER, ignore_errors=True)
        keeper = RecordKeeper(config, record, plan.folder, end, disk, reporter.say)
        tuner = _tuner(plan, record, offered, keeper, reporter, slots, to_train)
        with _max_pending(slots), _stops_on_signals(end, reporter.say):
            try:
                tuner.fit()
            except Exception as error:  # Tune wraps what a callback raises
                if (why := _why_lost(error, plan.folder)) is None:
                    raise
                end.stop("lost", why)
            finally:
                reporter.close()
    try:
        write_tables(record, plan.folder)
    except OSError as error:
        reporter.say(f"The tables can't be written: {error}")
    return end


def _tuner(
    plan: Plan,
    record: Record,
    offered: cluster.Cluster,
    keeper: RecordKeeper,
    reporter: SweepReporter,
    slots: int,
    to_train: int,
) -> tune.Tuner:
    config = plan.config
    resources = {"cpu": config.cpus_per_trial, "gpu": cluster.gpus_per_trial(config, offered.pcs)}
    searcher = plan.searcher.build(config, plan.space, record)
    searcher.slots = slots
    return tune.Tuner(
        tune.with_resources(tune.with_parameters(SweepTrial, job=job_of(plan)), resources),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=plan.scheduler.build(config, record),
            num_samples=to_train,
            reuse_actors=True,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=RunConfig(
            name=TUNE_FOLDER,
            storage_path=str(plan.folder),
            stop=keeper.end,
            callbacks=[keeper],
            progress_reporter=reporter,
            failure_config=FailureConfig(max_failures=MOST_LOST_PROCESSES),
            # The keeper says who saves at the end; a trial that failed has nothing to save.
            checkpoint_config=CheckpointConfig(num_to_keep=1, checkpoint_at_end=False),
            verbose=1,
        ),
    )


class End(Stopper):
    """Why and when a sweep ends before its last trial."""

    def __init__(
        self,
        time_budget_hours: float | None,
        used_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._deadline = None if time_budget_hours is None else clock() + time_budget_hours * 3600 - used_s
        self.outcome = "finished"
        """finished, out of time, interrupted, error, or lost (the record can't be written)."""
        self.error = ""
        """A user's mistake that showed only in training, or why the record was lost."""

    def stop(self, outcome: str, error: str = "") -> None:
        """Stop all trials at the next turn of Tune's loop."""
        self.outcome, self.error = outcome, error

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """No trial by itself."""
        return False

    def stop_all(self) -> bool:
        """Whether the sweep is to end now."""
        if self._deadline is not None and self._clock() >= self._deadline and self.outcome == "finished":
            self.outcome = "out of time"
        return self.outcome != "finished"


class RecordKeeper(Callback):
    """The record's one writer while trials run; keeps the checkpoints that someone may need."""

    def __init__(
        self,
        config: SweepConfig,
        record: Record,
        folder: Path,
        end: End,
        disk: Disk,
        say: Callable[[str], None],
    ) -> None:
        self.end = end
        self._config = config
        self._record = record
        self._folder = folder
        self._disk = disk
        self._say = say
        self._tables_written = time.monotonic()

    def __reduce__(self) -> tuple[Any, ...]:
        """Tuner pickles all that it is given; a copy has no terminal to speak to."""
        return Callback, ()

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Hold everything while the disk is about to be full."""
        self._disk.wait(self._say, self.end.stop_all)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Write the epoch; ask for the weights of a trial that ends among the best."""
        number = trial.config["number"]
        self._record.place(number, result["place"])
        for notice in result.pop("notices", []):
            self._say(f"Trial {number}: {notice}")
            self._record.notice(number, notice)
        if "epoch" in result:
            self._record.report(
                number, result["epoch"], result["score"], result["metrics"], result["seconds"]
            )
        if result["done"] and result.get("status") in (None, "finished"):
            result[SHOULD_CHECKPOINT] = self._record.would_lead(number, self._config.keep_checkpoints)

    def on_checkpoint(
        self, iteration: int, trials: list[Trial], trial: Trial, checkpoint: Checkpoint, **info: Any
    ) -> None:
        """Learn how much space one takes. (It is not Tune's own: that is an empty folder.)"""
        self._disk.measure(trial.config["number"])

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Write how it ended."""
        number, result = trial.config["number"], trial.last_result
        if not result.get("done"):
            return
        reached_end = result.get("epoch") == self._config.max_epochs
        status: Status = result.get("status") or ("finished" if reached_end else "pruned")
        log = self._write_log(number, result.pop("traceback", None))
        before = self._record.leaders(self._config.keep_checkpoints)
        self._record.end(number, status, result.get("reason", ""), log)
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
        """Its process was lost once too often, or Tune could not go on with it."""
        number, error = trial.config["number"], str(_error_of(trial)).strip()
        times = count(trial.run_metadata.num_failures, "time")
        reason = f"its process was lost {times}, at last: {error.splitlines()[-1]}"
        self._record.end(number, "failed", reason, self._write_log(number, error))
        self._drop_checkpoints({number})

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Write the tables every minute."""
        if time.monotonic() - self._tables_written >= TABLES_EVERY_S:
            write_tables(self._record, self._folder)
            self._tables_written = time.monotonic()

    def _anything_trained(self) -> bool:
        return any(trial.epochs for trial in self._record.trials)

    def _write_log(self, number: int, text: str | None) -> str | None:
        if text is None:
            return None
        log = Path("logs") / f"trial_{number:04d}.log"
        (self._folder / "logs").mkdir(exist_ok=True)
        trial = self._record.trials[number]
        content = f"params {dict(trial.params)}\nplace {dict(trial.place)}\n{text}"
        (self._folder / log).write_text(content, encoding="utf-8", errors="backslashreplace")
        return str(log)

    def _drop_checkpoints(self, numbers: set[int]) -> None:
        """Of trials that ended: all but the newest one of each that leads."""
        leaders = self._record.leaders(self._config.keep_checkpoints)
        for number in numbers:
            of_trial = checkpoints.folder_of(self._folder, number)
            if number in leaders:
                checkpoints.keep_newest(of_trial, 1)
            else:
                checkpoints.remove(of_trial)


def _why_lost(error: BaseException, folder: Path) -> str | None:
    """Why nothing can be written any more; None when it is another kind of error."""
    if not folder.is_dir():
        return f"{folder} is gone"
    return f"the disk of {folder} is full" if checkpoints.disk_is_full(error, folder) else None


def _error_of(trial: Trial) -> Exception | None:
    """What Tune wrote of a trial's last error. `Trial.get_pickled_error` looks for it in the storage,
    where Tune 2.60 has not put it yet."""
    file = trial.pickled_error_file
    if file is None or not Path(file).is_file():
        return None
    error: Exception = cloudpickle.loads(Path(file).read_bytes())
    return error


def _trial_name(trial: Trial) -> str:
    return f"trial_{trial.config['number']:04d}"


@contextlib.contextmanager
def _max_pending(slots: int) -> Iterator[None]:
    """Start all processes at once: Tune starts those of a searcher one after the other."""
    name = "TUNE_MAX_PENDING_TRIALS_PG"
    before = os.environ.get(name)
    os.environ[name] = str(slots)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextlib.contextmanager
def _stops_on_signals(end: End, say: Callable[[str], None]) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) ends the sweep in order, the second one at once."""

    def on_signal(number: int, frame: Any) -> None:
        for name, handler in before.items():
            signal.signal(name, handler)
        end.stop("interrupted")
        say("Stopping; the record is safe. Ctrl-C again to leave at once.")

    before = {name: signal.signal(name, on_signal) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
