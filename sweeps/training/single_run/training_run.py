"""Train one run by itself, as `sweeps fit` does; before, find the largest micro-batch, each tried by a short
run with all workers of the run."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.utilities import rank_zero_only
from tqdm import tqdm

from sweeps.common import gpus, plugins
from sweeps.common.cli import stop_signals
from sweeps.common.errors import CannotTrain, UserError, first_line, is_out_of_memory
from sweeps.common.formatting import command, count, duration, shown_path
from sweeps.common.param_types import build_params
from sweeps.kinds import registry
from sweeps.kinds.function import FunctionTrainable
from sweeps.kinds.trainable import LightningTrainable, OtherData, Trainable, as_lightning
from sweeps.training import batches
from sweeps.training.checkpoints import trained_model
from sweeps.training.config import FitConfig
from sweeps.training.data import dataset, preparation
from sweeps.training.distributed import cluster_environment, launch, strategy
from sweeps.training.distributed.launch import OUT_OF_MEMORY, TIMED_OUT
from sweeps.training.report import RunHere
from sweeps.training.runs.fit_loop import Fit
from sweeps.training.runs.function_run import FunctionRun
from sweeps.training.single_run.run_folder import SNAPSHOT_FILE, RunFolder
from sweeps.training.single_run.run_settings import SingleRun
from sweeps.training.single_run.torch_trace import Trace
from sweeps.training.torch_state import recorded_memory

OUT_OF_MEMORY_STATUS = 3
"""Exit status of a run that did not fit in memory."""
TRY_TIMEOUT_S = 600
"""Of a try of a micro-batch: when one worker alone runs out of memory, the others wait for it."""
FOUND_ROWS = "SWEEPS_FOUND_MICRO_BATCH"
"""Environment variable that gives the rows found by the first worker to those that it starts."""


def fit(run: SingleRun, trainable: Trainable) -> int:
    """Train, and where that does not fit in memory, print what takes less; the exit status."""
    run = run.changed(results_dir=str(Path(run.results_dir).expanduser().absolute()))
    os.environ[launch.STARTED_IN] = str(Path.cwd())
    plugins.enter_folder_of(trainable.description.content)
    run = _with_data(run, trainable)
    prepared = preparation.prepare_for_run(trainable, run.params)
    if run.find_batch_size:
        run = with_micro_batch(run, as_lightning(trainable), prepared)
    return _train(run, trainable, prepared)


def _with_data(run: SingleRun, trainable: Trainable) -> SingleRun:
    """The run with a description of its data.

    Raises:
        UserError: there is no data, or a resumed run began with other data.
    """
    now = trainable.describe_data(build_params(trainable.params_class, run.params))
    if trainable.preparation is not None:
        data_set = dataset.find_data_set(trainable, run.params)
        now = "; ".join([*([now] if now else []), f"prepared data {data_set.key[:16]}"])
    if run.data and run.data != now:
        raise UserError(
            f"--resume {shown_path(run.folder)}: the run began with other data. "
            "Give its --data-dir, or start a new run\n"
            f"  then  {run.data}\n  now   {now}"
        )
    return dataclasses.replace(run, data=now)


def _train(run: SingleRun, trainable: Trainable, prepared: Path | None) -> int:
    config = run.fit_config(trainable)
    snapshot = run.folder / SNAPSHOT_FILE if run.memory_snapshot and launch.is_first() else None
    with RunFolder(run, config) as folder, recorded_memory(snapshot):
        leaving, training = Leaving(), None
        try:
            training = _begun(run, trainable, config, folder.checkpoint, prepared, leaving)
            folder.begin(training, trainable.kept_files())
            while (found := training.advance()) is not None and folder.note(
                found, training, leaving.is_asked()
            ):
                pass
            training.close()
        except Exception as error:  # that memory ran out has no class of its own on each device
            if not is_out_of_memory(error):
                raise
            return _explain(run, trainable, training, error)
        finally:
            if not leaving.is_asked():
                leaving.close()
            if training is not None:
                training.release()  # what follows needs the memory
        if folder.has_left and launch.is_first():
            raise KeyboardInterrupt
        if folder.has_left:
            return 0  # at another status Lightning kills the first worker, which still prints
        cluster_environment.end_groups()  # all workers together: the first one goes on alone
        folder.keep_best(training)
        test: dict[str, float] | str = {}
        is_tested = run.test and launch.is_first() and folder.best.is_dir()  # not where no score was finite
        if is_tested and not (test := training.why_no_test):
            params, own = build_params(trainable.params_class, run.params), as_lightning(trainable)
            test = trained_model.score_test_rows(own, params, config, folder.best, prepared=prepared)
        return folder.say_end(test, is_prepared=prepared is not None)


def _begun(
    run: SingleRun,
    trainable: Trainable,
    config: FitConfig,
    checkpoint: Path | None,
    prepared: Path | None,
    leaving: Leaving,
) -> RunHere:
    """The training, of whichever kind."""
    params = build_params(trainable.params_class, run.params)
    if isinstance(trainable, FunctionTrainable):
        leaving.listen()
        return FunctionRun(trainable, params, config, checkpoint)
    training = Fit(
        as_lightning(trainable),
        params,
        config,
        checkpoint,
        prepared=prepared,
        is_to_leave=leaving.is_asked,
        log_dir=run.folder / "logs",
        progress_bar=sys.stderr.isatty(),
    )
    training.callbacks.append(leaving)
    if training.progress.has_ended:
        training.callbacks.append(EndedBefore())
    if run.profile and launch.is_first():
        trace = Trace(training.meter.step_times, run.folder / "profile", tqdm.write)
        training.callbacks.append(trace)
    return training


def with_micro_batch(run: SingleRun, trainable: LightningTrainable, prepared: Path | None) -> SingleRun:
    """The run with the largest micro-batch that fits and divides the batch; prints each try.

    Raises:
        UserError: not even one row fits, the batch can't be split, or a try failed for another reason.
    """
    if not launch.is_first():
        return run.changed(micro_batch=int(os.environ[FOUND_ROWS]), find_batch_size=False)
    workers = run.fit.workers

    def fits(rows: int) -> bool:
        failure = launch.call(TRY_TIMEOUT_S, train_some_steps, run, rows)[1]
        does = does_fit(failure, rows, workers)
        launch.say(f"  {count(rows, 'row'):<12} {'fits in memory' if does else 'out of memory'}")
        return does

    params = build_params(trainable.params_class, run.params)
    try:
        whole = batches.read_batch_rows(trainable.build_data(params, prepared))
        launch.say(f"Finding the largest micro-batch that fits, for a batch of {count(whole, 'row')}")
        found = batches.largest_that_fits(fits, whole, workers)
    except (MemoryError, CannotTrain) as error:
        raise UserError(f"--find-batch-size: {error}") from None
    times = f" x {found.accumulation} x {count(workers, 'worker')}" if (found.rows != whole) else ""
    launch.say(f"  micro-batch of {count(found.rows, 'row')}{times}\n")
    os.environ[FOUND_ROWS] = str(found.rows)
    return run.changed(micro_batch=found.rows, find_batch_size=False)


def does_fit(failure: str, rows: int, workers: int) -> bool:
    """Whether a micro-batch fits in memory, by the `failure` of its try (see `launch.failure_of`).

    Raises:
        UserError: the try failed for another reason than memory.
    """
    if failure == TIMED_OUT and workers == 1:
        raise UserError(
            f"a try with {count(rows, 'row')} did not end within {duration(TRY_TIMEOUT_S)}, so it is not "
            "known whether it fits; give a smaller --micro-batch"
        )
    if failure in ("", OUT_OF_MEMORY, TIMED_OUT):
        return not failure
    raise UserError(f"a try with {count(rows, 'row')} failed:\n{failure}")


def train_some_steps(run: SingleRun, rows: int) -> None:
    """Train with micro-batches of `rows` in this process."""
    with contextlib.suppress(OSError):  # when memory runs out, Linux kills this process first
        Path("/proc/self/oom_score_adj").write_text("1000")
    trainable = as_lightning(registry.find(run.trainable))
    config = dataclasses.replace(
        run.fit_config(trainable),
        max_epochs=1,
        micro_batch=rows,
        steps_per_epoch=2,  # from the second one on, the optimizer's state is allocated
    )
    prepared = preparation.prepare_for_run(trainable, run.params)

    params = build_params(trainable.params_class, run.params)
    # Two micro-batches a step: the second is computed with the first one's gradients in memory.
    data = OtherData(trainable, 2 * rows * config.workers)
    training = Fit(data, params, config, prepared=prepared)
    training.advance()
    training.close()


def _explain(run: SingleRun, trainable: Trainable, training: RunHere | None, error: Exception) -> int:
    """Print why the run ran out of memory and which flags take less; returns the exit status."""
    if not launch.is_first():  # it prints its own line, since Lightning then kills the first worker
        number = getattr(rank_zero_only, "rank", 0)
        print(f"error: worker {number} is out of memory: try --find-batch-size", file=sys.stderr, flush=True)
        return OUT_OF_MEMORY_STATUS
    print(
        f"error: {first_line(error) if str(error).strip() else 'out of memory'}", file=sys.stderr, flush=True
    )
    micro_batch = f" with micro-batches of {count(run.fit.micro_batch, 'row')}" if run.fit.micro_batch else ""
    launch.say(f"Out of memory: the run does not fit{micro_batch}.")
    for line in gpus.lines(gpus.listed(os.environ), [os.getpid()]):
        launch.say(f"{line}, too: without that the run may fit.")
    if not (found := smaller_settings(run, trainable, strategy.Device.here())):
        launch.say("Give smaller hyperparameters.")
        return OUT_OF_MEMORY_STATUS
    if training is not None:
        try:
            rows = training.smaller_batch().rows
            again = command("fit", "--resume", shown_path(run.folder), "--micro-batch", str(rows))
            launch.say(f"Resume with the same effective batch:\n  {again}")
        except CannotTrain as fault:
            launch.say(f"A smaller micro-batch is of no use: {fault}")
    launch.say("\n".join(["For a new run, try one of:", *(f"  {hint}" for hint in found)]))
    return OUT_OF_MEMORY_STATUS


def smaller_settings(run: SingleRun, trainable: Trainable, device: strategy.Device) -> list[str]:
    """Flags of a new run, which the trainable takes, that take less memory than this one did."""
    found = {"find_batch_size": "--find-batch-size"}
    if strategy.choose_precision(run.fit.precision, device)[0] == "32-true":
        found["precision"] = f"--precision {'bf16' if device.has_bf16 else '16'}-mixed"
    if "offload" not in run.fit.strategy:
        found["strategy"] = "--strategy deepspeed_stage_2_offload, on a GPU"
    return [hint for name, hint in found.items() if not trainable.faults_of_settings([name])]


class EndedBefore(pl.Callback):
    """Ends a resumed training before its next epoch, where it had ended by itself (EarlyStopping): Lightning
    does not save that it had. It begins all the same, since there the workers wait for each other: else the
    first one would remove the checkpoint before the others have read it."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.should_stop = True


class Leaving(pl.Callback):
    """Notes Ctrl-C, SIGTERM and a closed terminal while the run trains; a second Ctrl-C ends it at once.

    Each worker has one; the first worker's counts. It listens from the first step on, since Lightning takes
    SIGTERM when a training begins, and would raise at the end of the step.
    """

    def __init__(self) -> None:
        self._is_asked = False
        self._listens = contextlib.ExitStack()

    def is_asked(self) -> bool:
        """Whether to leave the run."""
        return self._is_asked

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.listen()

    def listen(self) -> None:
        """Note them from now on."""
        self._listens.enter_context(stop_signals.handled(self._note))

    def on_train_end(self, *_: Any) -> None:
        if not self._is_asked:  # else until Lightning has ended: the signal may be sent again and again
            self.close()

    def on_exception(self, *_: Any) -> None:
        self.on_train_end()

    def close(self) -> None:
        """Note them no longer."""
        self._listens.close()

    def _note(self) -> None:
        self._is_asked = True
        with contextlib.suppress(OSError, RuntimeError):  # a closed pipe; the signal came within a print
            launch.say(
                "\nStopping. The run is saved at its next step with prepared data, else at the end of its "
                "epoch. Press Ctrl-C again to stop at once."
            )
