"""Why a trial did not end well: what is said of it."""

from __future__ import annotations

import traceback
from typing import Any

from training.config import CannotTrain


def failed(error: BaseException) -> dict[str, Any]:
    """What the driver hears of an exception."""
    is_user_error = isinstance(error, CannotTrain)
    return {
        "done": True,
        "status": "failed",
        "reason": str(error) if is_user_error else first_line(error),
        "traceback": "".join(traceback.format_exception(error)),
        "is_user_error": is_user_error,
    }


def first_line(error: BaseException) -> str:
    """An exception as a reason of one line."""
    try:
        text = str(error).strip()
    except Exception:  # a user's exception whose own __str__ raises
        text = "(its message can't be read)"
    lines = text.encode(errors="backslashreplace").decode().splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:500] if lines else type(error).__name__


def why_diverged(metric: str, epoch: int, score: float) -> str:
    """The reason of a trial whose metric was not finite."""
    return f"{metric} was {score} in epoch {epoch}"
