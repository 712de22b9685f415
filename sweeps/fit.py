"""Train one trial by itself, without Ray: `sweeps fit fashion_cnn --lr 0.01`

All flags: `sweeps fit NAME --help`. Exit status: 0; 1, the training failed; 2, a user's mistake; 3, it does
not fit in memory; 130, Ctrl-C.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

from sweeps.common import imports
from sweeps.common.cli import json_output
from sweeps.common.cli.dispatch import status_of
from sweeps.common.errors import folded
from sweeps.kinds.trainable import Trainable
from sweeps.training.distributed import launch
from sweeps.training.single_run import run_settings
from sweeps.training.single_run.run_settings import SingleRun


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    launch.enter_folder_of_first()
    if not launch.is_first():
        json_output.leave_lines_to_first()
    try:
        status = status_of(lambda: _fit(*run_settings.parse(arguments)))
    except Exception as error:  # of any kind: it is only printed sooner, and shorter, than by the interpreter
        launch.leave_group(1, error)
        text = "".join(traceback.format_exception(error))
        print(folded(text), file=sys.stderr)
        return 1
    if status:
        launch.leave_group(status)
    return status


def _fit(run: SingleRun, trainable: Trainable) -> int:
    for line in imports.newer_than_tested():
        launch.say(f"warning    {line}")
    launch.say(f"Loading {run.trainable} ...")
    if run.profile:  # before PyTorch is imported, for its profiler's messages
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    with imports.fast():
        from sweeps.training.single_run import training_run
    status = training_run.fit(run, trainable)
    if not launch.is_first():
        launch.leave(status)
    return status


if __name__ == "__main__":
    sys.exit(main())
