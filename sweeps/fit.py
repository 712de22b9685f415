"""Train one trial by itself, without Ray: `sweeps fit fashion_cnn --lr 0.01`

All flags: `sweeps fit NAME --help`. Exit status: 0; 1, the training failed; 2, a mistake in
what was asked; 3, it does not fit in memory; 130, Ctrl-C.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from sweeps.common.cli.command import status_of
from sweeps.common.errors import UserError
from sweeps.common.formatting import place
from sweeps.training import run_settings
from sweeps.training.distributed import launch
from sweeps.training.run_settings import SingleRun


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: fit(*run_settings.parse(arguments)))


def fit(run: SingleRun, module: ModuleType, resumes: bool) -> int:
    """Load, train, and where that does not fit in memory, say what does."""
    from sweeps.common import gc_freeze

    launch.say(f"Loading {run.trainable} ...")
    if run.profile:  # before PyTorch is imported: its profiler speaks of itself
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    with gc_freeze.uncollected():
        from sweeps.training import batch_size_finder
        from sweeps.training.data import build
        from sweeps.training.profiling import memory

    run = _with_data(run, module)
    prepared = build.of_trial(run.trainable, module, run.params)
    if run.find_batch_size:
        run = batch_size_finder.with_micro_batch(run, module, prepared)
    try:
        return _train(run, module, prepared, resumes)
    except Exception as error:
        if not memory.is_out_of_memory(error):
            raise
        print(f"error: {batch_size_finder.in_a_line(error)}", file=sys.stderr, flush=True)
    # Not within the except: there the traceback holds the model's memory.
    return batch_size_finder.explain(run, module, prepared)


def _with_data(run: SingleRun, module: ModuleType) -> SingleRun:
    """The run, with the data that is there now.

    Raises:
        UserError: none is, or a run that goes on has begun with other data.
    """
    from sweeps.training.data import dataset

    now = dataset.describe_data(run.trainable, module, module.Params(**run.params))
    if dataset.has_preparation(module):
        data_set = dataset.look(run.trainable, module, run.params)
        now = "; ".join([*([now] if now else []), f"prepared data {data_set.key[:16]}"])
    if run.data and run.data != now:
        raise UserError(
            f"--resume {place(run.folder)}: it has begun with other data. "
            "Give the --data-dir that it had, or begin a new run\n"
            f"  then  {run.data}\n  now   {now}"
        )
    return dataclasses.replace(run, data=now)


def _train(run: SingleRun, module: ModuleType, prepared: Path | None, resumes: bool) -> int:
    """Train epoch by epoch, keep the best one, say where the time went."""
    from sweeps.common import gc_freeze
    from sweeps.training.profiling import memory

    with gc_freeze.uncollected():
        from sweeps.training.fit_loop import Fit, test
        from sweeps.training.run_folder import RunFolder

    params, config = module.Params(**run.params), run.fit_config(module)
    with RunFolder(run, config, resumes) as folder, memory.recorded(folder.snapshot):
        training = Fit(module, params, config, folder.checkpoint, prepared=prepared)
        folder.begin(training)
        training.run(
            lambda epoch: folder.note(epoch, training),
            *folder.watchers(training),
            progress_bar=sys.stderr.isatty(),
        )
        folder.keep_best(training)
        scores = {}
        if run.test and launch.is_first():
            scores = test(module, params, config, folder.best, prepared=prepared)
        return folder.say_end(scores, is_prepared=prepared is not None)


if __name__ == "__main__":
    sys.exit(main())
