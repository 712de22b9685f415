"""Find the largest micro-batch that fits in memory, each tried by a short run with all workers of the run."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import Any

from sweeps.common.errors import CannotTrain, UserError
from sweeps.common.formatting import count, duration
from sweeps.common.param_types import build_params
from sweeps.kinds import registry
from sweeps.kinds.trainable import LightningTrainable, OtherData
from sweeps.training import micro_batches
from sweeps.training.data import preparation
from sweeps.training.distributed import launch, subprocess_run
from sweeps.training.distributed.subprocess_run import OUT_OF_MEMORY, TIMED_OUT
from sweeps.training.fit_loop import Fit
from sweeps.training.single_run.run_settings import SingleRun

STEPS = 2
"""Optimizer steps of a try: from the second on, the optimizer's state is allocated."""
ACCUMULATION = 2
"""Micro-batches of a step: the second is computed with the first one's gradients in memory."""
TRY_TIMEOUT_S = 600
"""Of a try: when one worker alone runs out of memory, the others wait for it."""
FOUND_ROWS = "SWEEPS_FOUND_MICRO_BATCH"
"""Environment variable that gives the rows found by the first worker to those that it starts."""


def with_micro_batch(run: SingleRun, trainable: LightningTrainable, prepared: Path | None) -> SingleRun:
    """The run with the largest micro-batch that fits and divides the batch; prints each try.

    Raises:
        UserError: not even one row fits, the batch can't be split, or a try failed for another reason.
    """
    if not launch.is_first():
        return run.changed(micro_batch=int(os.environ[FOUND_ROWS]), find_batch_size=False)
    workers = run.fit.workers

    def fits(rows: int) -> bool:
        failure = subprocess_run.call(TRY_TIMEOUT_S, train_some_steps, run, rows)[1]
        does = does_fit(failure, rows, workers)
        launch.say(f"  {count(rows, 'row'):<12} {'fits in memory' if does else 'out of memory'}")
        return does

    params = build_params(trainable.params_class, run.params)
    try:
        whole = micro_batches.read_batch_rows(trainable.build_data(params, prepared))
        launch.say(f"Finding the largest micro-batch that fits, for a batch of {count(whole, 'row')}")
        found = micro_batches.largest_that_fits(fits, whole, workers)
    except (MemoryError, CannotTrain) as error:
        raise UserError(f"--find-batch-size: {error}") from None
    times = f" x {found.accumulation} x {count(workers, 'worker')}" if (found.rows != whole) else ""
    launch.say(f"  micro-batch of {count(found.rows, 'row')}{times}\n")
    os.environ[FOUND_ROWS] = str(found.rows)
    return run.changed(micro_batch=found.rows, find_batch_size=False)


def does_fit(failure: str, rows: int, workers: int) -> bool:
    """Whether a micro-batch fits in memory, by the `failure` of its try (see `subprocess_run.failure_of`).

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
    trainable = registry.find(run.trainable)
    config = dataclasses.replace(
        run.fit_config(trainable), max_epochs=1, micro_batch=rows, steps_per_epoch=STEPS
    )
    prepared = preparation.prepare_for_run(trainable, run.params)

    def build_large(params: Any) -> Any:
        data: Any = trainable.build_data(params, prepared)
        data.batch_size = rows * config.workers * ACCUMULATION
        return data

    params = build_params(trainable.params_class, run.params)
    training = Fit(OtherData(trainable, build_large), params, config)
    training.advance()
    training.close()
