"""`python -m tests.support.dying POINT ARGS`: `python -m sweeps.run`, killed with SIGKILL at a named
point."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sweeps.ray_start import ray_environment
from sweeps.run import main as run_main

ray_environment.set_environment()
if __name__ == "__main__":  # Ray reads it when it is imported
    ray_environment.settle_token(None)

from ray.tune.result import SHOULD_CHECKPOINT  # noqa: E402

from sweeps.execution.driver.tune_callback import TuneCallback  # noqa: E402
from sweeps.record.journal import Journal, Operation  # noqa: E402
from sweeps.record.record import Record  # noqa: E402
from sweeps.storage import retention  # noqa: E402


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(owner: Any, name: str, is_it: Callable[..., bool] = lambda *_, **__: True) -> None:
    """Die behind a call, when it is the one that is meant."""
    really = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        answer = really(*arguments, **named)
        if is_it(*arguments, **named):
            die()
        return answer

    setattr(owner, name, call)


def before(owner: Any, name: str, is_it: Callable[..., bool] = lambda *_, **__: True) -> None:
    """Die before a call, when it is the one that is meant."""
    really = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        if is_it(*arguments, **named):
            die()
        return really(*arguments, **named)

    setattr(owner, name, call)


POINTS: dict[str, Callable[[], None]] = {
    "a run is noted, its trials are not in order": lambda: after(Record, "start_clock"),
    "an epoch is recorded": lambda: after(Record, "report"),
    "the last epoch is recorded, its weights are asked for": lambda: after(
        TuneCallback, "on_trial_result", lambda *_, result, **__: bool(result.get(SHOULD_CHECKPOINT))
    ),
    "the weights are saved, the end is not recorded": lambda: before(TuneCallback, "on_trial_complete"),
    "half of the end is recorded": lambda: before(
        Journal, "append", lambda _, operation, **__: operation is Operation.TRIAL_STATE
    ),
    "the end is recorded, the checkpoints are not dropped": lambda: before(retention, "drop"),
    "the old best/ is gone, the new one is not there": lambda: before(
        Path, "replace", lambda path, *_: path.name == ".best.part"
    ),
    "the winner is tested, the outcome is not recorded": lambda: before(Record, "end_run"),
}
"""What has just happened when the driver dies, in the order in which a sweep comes there."""

if __name__ == "__main__":
    POINTS[sys.argv[1]]()
    sys.exit(run_main(sys.argv[2:]))
