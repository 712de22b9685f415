"""Train one run by itself, as `sweeps fit` does."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl

from sweeps.common import plugins, stop_signals
from sweeps.common.errors import UserError, is_out_of_memory
from sweeps.common.formatting import shown_path
from sweeps.common.param_types import build_params
from sweeps.kinds.trainable import LightningTrainable
from sweeps.training import batch_size_finder, trained_model
from sweeps.training.data import dataset, preparation
from sweeps.training.distributed import cluster_environment, launch
from sweeps.training.fit_loop import Fit
from sweeps.training.run_folder import RunFolder
from sweeps.training.run_settings import LOGS, SingleRun


def fit(run: SingleRun, trainable: LightningTrainable, resumes: bool) -> int:
    """Train, and if that does not fit in memory, print the largest micro-batch that does; the exit status."""
    run = run.changed(results_dir=str(Path(run.results_dir).expanduser().absolute()))
    os.environ[launch.STARTED_IN] = str(Path.cwd())
    plugins.enter_folder_of(trainable.description.content)
    run = _with_data(run, trainable)
    prepared = preparation.prepare_for_run(trainable, run.params)
    if run.find_batch_size:
        run = batch_size_finder.with_micro_batch(run, trainable, prepared)
    try:
        return _train(run, trainable, prepared, resumes)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        print(f"error: {batch_size_finder.in_a_line(error)}", file=sys.stderr, flush=True)
    # Not within the except: there the traceback holds the model's memory.
    return batch_size_finder.explain(run, trainable, prepared)


def _with_data(run: SingleRun, trainable: LightningTrainable) -> SingleRun:
    """The run with a description of its data.

    Raises:
        UserError: there is no data, or a resumed run began with other data.
    """
    now = dataset.describe_data(trainable, build_params(trainable.params_class, run.params))
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


def _train(run: SingleRun, trainable: LightningTrainable, prepared: Path | None, resumes: bool) -> int:
    params, config = build_params(trainable.params_class, run.params), run.fit_config(trainable)
    with RunFolder(run, config, resumes) as folder, folder.memory_recorded():
        leaving = Leaving()
        training = Fit(
            trainable,
            params,
            config,
            folder.checkpoint,
            prepared=prepared,
            is_to_leave=leaving.is_asked,
            log_dir=run.folder / LOGS,
        )
        folder.begin(training)
        try:
            training.run(
                lambda found: folder.note(found, training),
                leaving,
                *folder.profilers(training),
                progress_bar=sys.stderr.isatty(),
            )
        finally:
            training.release()  # what follows needs the memory: the test, or tries of a batch that fits
        if folder.has_left and launch.is_first():
            raise KeyboardInterrupt
        if folder.has_left:
            return 0  # at another status Lightning kills the first worker, which still prints
        cluster_environment.end_groups()  # all workers together: the first one goes on alone
        folder.keep_best(training)
        test: dict[str, float] | str = {}
        if run.test and launch.is_first() and not (test := training.why_no_test):
            test = trained_model.score_test_rows(trainable, params, config, folder.best, prepared=prepared)
        return folder.say_end(test, is_prepared=prepared is not None)


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
        self._listens.enter_context(stop_signals.handled(self._note))

    def on_train_end(self, *_: Any) -> None:
        if not self._is_asked:  # else until Lightning has ended: the signal may be sent again and again
            self._listens.close()

    def on_exception(self, *_: Any) -> None:
        self.on_train_end()

    def _note(self) -> None:
        self._is_asked = True
        with contextlib.suppress(OSError, RuntimeError):  # a closed pipe; the signal came within a print
            launch.say(
                "\nStopping. The run is saved at its next step with prepared data, else at the end of its "
                "epoch. Press Ctrl-C again to stop at once."
            )
