"""Train one trial by itself, without Ray: `python -m training.fit fashion_cnn --lr 0.01`

All flags: `python -m training.fit NAME --help`. Exit status: 0; 1, the training failed; 2, a mistake in
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
from training import launch, single
from training.single import SingleRun


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: fit(*single.parse(arguments)))


def fit(run: SingleRun, module: ModuleType, resumes: bool) -> int:
    """Load, train, and where that does not fit in memory, say what does."""
    from sweeps.common import gc_freeze

    single.say(f"Loading {run.trainable} ...")
    if run.profile:  # before PyTorch is imported: its profiler speaks of itself
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    with gc_freeze.uncollected():
        from training import memory, preparation, tries

    run = _with_data(run, module)
    prepared = preparation.of_trial(run.trainable, module, run.params)
    if run.find_batch_size:
        run = tries.with_micro_batch(run, module, prepared)
    try:
        return _train(run, module, prepared, resumes)
    except Exception as error:
        if not memory.is_out_of_memory(error):
            raise
        print(f"error: {tries.in_a_line(error)}", file=sys.stderr, flush=True)
    # Not within the except: there the traceback holds the model's memory.
    return tries.explain(run, module, prepared)


def _with_data(run: SingleRun, module: ModuleType) -> SingleRun:
    """The run, with the data that is there now.

    Raises:
        UserError: none is, or a run that goes on has begun with other data.
    """
    from training import prepared

    now = prepared.describe_data(run.trainable, module, module.Params(**run.params))
    if prepared.has_preparation(module):
        data_set = prepared.look(run.trainable, module, run.params)
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
    from training import memory

    with gc_freeze.uncollected():
        from training.diary import Diary
        from training.trainer import Fit, test

    params, config = module.Params(**run.params), run.fit_config(module)
    with Diary(run, config, resumes) as diary, memory.recorded(diary.snapshot):
        training = Fit(module, params, config, diary.checkpoint, prepared=prepared)
        diary.begin(training)
        training.run(
            lambda epoch: diary.note(epoch, training),
            *diary.watchers(training),
            progress_bar=sys.stderr.isatty(),
        )
        diary.keep_best(training)
        scores = {}
        if run.test and launch.is_first():
            scores = test(module, params, config, diary.best, prepared=prepared)
        return diary.say_end(scores, is_prepared=prepared is not None)


if __name__ == "__main__":
    sys.exit(main())
