"""Why a trial did not end well, as its result says it."""

from __future__ import annotations

import os
import platform
import sys
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn

from sweeps.cluster import broadcast
from sweeps.common.errors import CannotTrain, PCUnfit, is_out_of_memory, reason_of

BROKEN = "the GPU computes no more in this process"
LOST = 70
"""Exit status of a process that gave up its trial."""
UNUSABLE = 71
"""Exit status of a process that could not begin a trial, for what came before it."""


class WorkerFailed(Exception):
    """A worker other than the first has failed; `failure` is its result."""

    def __init__(self, failure: Mapping[str, Any]) -> None:
        super().__init__(failure["reason"])
        self.failure = dict(failure)


class WorkerUnfit(WorkerFailed, PCUnfit):
    """The PC of a worker other than the first can't train."""


def failed(error: BaseException) -> dict[str, Any]:
    """The result of a trial that raised."""
    is_user_error = isinstance(error, CannotTrain)
    return {
        "done": True,
        "status": "failed",
        "reason": str(error) if is_user_error else reason_of(error),
        "traceback": "".join(traceback.format_exception(error)),
        "is_user_error": is_user_error,
        "is_out_of_memory": is_out_of_memory(error),
    }


def unfit(error: Exception) -> dict[str, Any]:
    """The result of a trial on a PC that can't train any: why, and which PC."""
    if isinstance(error, WorkerUnfit):
        return error.failure
    at = {"pc": platform.node(), "node": broadcast.here()}
    return {"done": True, "unfit": str(error), "at": at, "reason": str(error), "is_user_error": False}


def give_up(why: str, status: int = LOST) -> NoReturn:
    """End this process. The trial is requeued, and Ray ends the rest of its worker group."""
    print(f"The process of this trial ends, and the trial is requeued: {why}", file=sys.stderr, flush=True)
    os._exit(status)
