"""Why a trial did not end well: what is said of it."""

from __future__ import annotations

import platform
import traceback
from collections.abc import Mapping
from typing import Any

from sweeps.cluster import broadcast
from sweeps.common.errors import CannotTrain, PCUnfit, reason_of


class WorkerFailed(Exception):
    """Another worker than the first has failed: what there is to be said of it."""

    def __init__(self, failure: Mapping[str, Any]) -> None:
        super().__init__(failure["reason"])
        self.failure = dict(failure)


class ElsewhereUnfit(PCUnfit):
    """The PC of another worker than the first can't train: what that one said of it."""

    def __init__(self, failure: Mapping[str, Any]) -> None:
        super().__init__(failure["reason"])
        self.failure = dict(failure)


def failed(error: BaseException) -> dict[str, Any]:
    """What the driver hears of an exception."""
    is_user_error = isinstance(error, CannotTrain)
    return {
        "done": True,
        "status": "failed",
        "reason": str(error) if is_user_error else reason_of(error),
        "traceback": "".join(traceback.format_exception(error)),
        "is_user_error": is_user_error,
    }


def unfit(error: Exception) -> dict[str, Any]:
    """What the driver hears where a PC can't train, through no fault of a trial: why, and which PC."""
    if isinstance(error, ElsewhereUnfit):
        return error.failure
    at = {"pc": platform.node(), "node": broadcast.here()}
    return {"done": True, "unfit": str(error), "at": at, "reason": str(error), "is_user_error": False}


def error_of(failure: Mapping[str, Any]) -> Exception:
    """What another worker said, to be raised in the first."""
    return (ElsewhereUnfit if "unfit" in failure else WorkerFailed)(failure)
