"""Try micro-batches, each by a short run: `python -m sweeps.training.batch_size_finder FOLDER ROWS`.

It has all workers of the run that it stands for, and each of them leaves in the folder why it failed. It is
the first that the system kills where the PC's memory ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from lightning.pytorch.utilities import rank_zero_only

from sweeps.common import atomic_io, plugins, project
from sweeps.common.cli.command import TRAINABLE
from sweeps.common.errors import CannotTrain, UserError, first_line
from sweeps.common.formatting import command, count, duration, place
from sweeps.training import run_settings, subprocess_run
from sweeps.training.config import Trainable
from sweeps.training.data import build
from sweeps.training.data.dataset import build_data
from sweeps.training.distributed import gradient_accumulation, launch, strategy
from sweeps.training.distributed.gradient_accumulation import MicroBatch
from sweeps.training.fit_loop import Fit
from sweeps.training.profiling import memory
from sweeps.training.run_settings import SETTINGS_FILE, SingleRun
from sweeps.training.subprocess_run import OUT_OF_MEMORY, TIMED_OUT

STEPS = 2
"""Of the optimizer: its own state is there from the second on."""
ACCUMULATION = 2
"""Micro-batches of a step: the second is computed with the gradients of the first in memory."""
TRY_TIMEOUT_S = 600
"""Where one worker runs out of memory alone, the others wait for it."""
FOUND = "SWEEPS_FOUND_MICRO_BATCH"
"""What the first worker has found, for those that it starts."""


def with_micro_batch(run: SingleRun, module: ModuleType, prepared: Path | None) -> SingleRun:
    """The run with the largest micro-batch that fits, found by tries.

    Raises:
        UserError: not even one row fits, or a try failed for another reason.
    """
    if not launch.is_first():
        return run.changed(micro_batch=int(os.environ[FOUND]), find_batch_size=False)
    try:
        found = find(run, module, prepared)
    except (MemoryError, CannotTrain) as error:
        raise UserError(f"--find-batch-size: {error}") from None
    os.environ[FOUND] = str(found.rows)
    return run.changed(micro_batch=found.rows, find_batch_size=False)


def explain(run: SingleRun, module: ModuleType, prepared: Path | None) -> int:
    """Say of a run that ran out of memory what fits, and which flag to try; the exit status."""
    if not launch.is_first():
        return memory.OUT_OF_MEMORY
    memory.free()
    known = f" by micro-batches of {count(run.fit.micro_batch, 'row')}" if run.fit.micro_batch else ""
    launch.say(f"Out of memory: it does not fit{known}.")
    workers = run.fit.workers
    if workers == 1:
        try:
            rows = find(run, module, prepared).rows
            again = command("fit", "--resume", place(run.folder), "--micro-batch", str(rows))
            launch.say(f"Go on, the batch stays what it is:\n  {again}")
        except (MemoryError, CannotTrain, UserError) as error:
            launch.say(f"None was found: {error}")
    found = hints(run, workers, strategy.Device.here())
    launch.say("\n".join(["In a new run, try one of:", *(f"  {hint}" for hint in found)]))
    return memory.OUT_OF_MEMORY


def in_a_line(error: Exception) -> str:
    """What to say of an error that is out of memory.

    A worker other than the first speaks for itself: Lightning kills the first one when it has ended.
    """
    if launch.is_first():
        return first_line(error) if str(error).strip() else OUT_OF_MEMORY
    number = getattr(rank_zero_only, "rank", 0)
    return f"worker {number} is {OUT_OF_MEMORY}: try --find-batch-size"


def hints(run: SingleRun, workers: int, device: strategy.Device) -> list[str]:
    """Flags of a new run that take less memory than this one did."""
    found = ["--find-batch-size"] if workers > 1 else []
    if strategy.choose_precision(run.fit.precision, device)[0] == "32-true":
        found.append(f"--precision {'bf16' if device.has_bf16 else '16'}-mixed")
    if "offload" not in run.fit.strategy:
        found.append("--strategy deepspeed_stage_2_offload, on a GPU")
    return found


def find(run: SingleRun, module: Any, prepared: Path | None) -> MicroBatch:
    """The fewest micro-batches that fit and make up the batch; says each try.

    Raises:
        MemoryError: not even one row fits.
        CannotTrain: the batch can't be split.
        UserError: a try failed for another reason.
    """
    workers = run.fit.workers
    whole = gradient_accumulation.of(build_data(module, module.Params(**run.params), prepared))
    launch.say(f"Finding the largest micro-batch that fits, a batch being {count(whole, 'row')} ...")

    def fits(rows: int) -> bool:
        does = _try(run, rows, workers)
        launch.say(f"  {count(rows, 'row'):<12} {'fit' if does else 'do not fit'}")
        return does

    found = gradient_accumulation.largest_that_fits(fits, whole, workers)
    times = f" x {found.accumulation} x {count(workers, 'worker')}" if (found.rows != whole) else ""
    launch.say(f"  micro-batch of {count(found.rows, 'row')}{times}\n")
    return found


def _try(run: SingleRun, rows: int, workers: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="sweeps-try-", ignore_cleanup_errors=True) as folder:
        atomic_io.write(Path(folder) / SETTINGS_FILE, run.to_yaml())
        command = [sys.executable, "-m", "sweeps.training.batch_size_finder", folder, str(rows)]
        failure = subprocess_run.why(subprocess_run.run(command, TRY_TIMEOUT_S), Path(folder))
    return does_fit(failure, rows, workers)


def does_fit(failure: str, rows: int, workers: int) -> bool:
    """What a try says of its rows.

    Args:
        failure: as `children.why` has it.
        rows: of its micro-batches.
        workers: that tried together.

    Raises:
        UserError: it says nothing of them.
    """
    if failure == TIMED_OUT and workers == 1:
        raise UserError(
            f"a try with {count(rows, 'row')} was not done within {duration(TRY_TIMEOUT_S)}, which says "
            "nothing of memory; give a smaller --micro-batch"
        )
    if failure in ("", OUT_OF_MEMORY, TIMED_OUT):
        return not failure
    raise UserError(f"a try with {count(rows, 'row')} failed:\n{failure}")


class _OfRows:
    """A trainable whose batches are so large that they are split into micro-batches of `rows`."""

    def __init__(self, module: Trainable, prepared: Path | None, batch_rows: int) -> None:
        def of_rows(params: Any) -> Any:
            data: Any = build_data(module, params, prepared)
            data.batch_size = batch_rows
            return data

        self.METRIC, self.MODE, self.Params = module.METRIC, module.MODE, module.Params
        self.build_model, self.build_data = module.build_model, of_rows


def main(folder: str, rows: int) -> None:
    """Train a few steps by micro-batches of `rows`; a worker that fails leaves why in the folder."""
    _be_killed_first()
    with subprocess_run.telling(Path(folder)):
        run = run_settings.read(Path(folder))
        project.use(Path(run.project) if run.project else None)
        module: Any = plugins.find(TRAINABLE, run.trainable)

        config = dataclasses.replace(
            run.fit_config(module), max_epochs=1, micro_batch=rows, steps_per_epoch=STEPS
        )
        prepared = build.of_trial(run.trainable, module, run.params)
        of_rows = _OfRows(module, prepared, rows * config.workers * ACCUMULATION)
        Fit(of_rows, module.Params(**run.params), config).run(lambda epoch: False)


def _be_killed_first() -> None:
    """Tell Linux whom to take when the PC's memory ends: this process, not the user's browser."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
