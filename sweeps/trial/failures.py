"""Why a trial did not end well, as its result says it."""

from __future__ import annotations

import platform
import traceback
from collections.abc import Mapping
from typing import Any

from sweeps.cluster import broadcast
from sweeps.common.errors import CannotTrain, PCUnfit, is_out_of_memory, reason_of
from sweeps.common.formatting import count
from sweeps.training.fit_loop import Fit
from sweeps.training.profiling.memory import Need

NORMS = (
    "; its batch normalization sees fewer rows at a time, so its result differs from that of whole batches"
)


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


def remedy(fit: Fit | None, need: Need | None) -> dict[str, Any]:
    """How a trial that ran out of memory may go on: `micro_batch` in rows, `notice`, and `caution`, to be
    said once; or that it can't, as `infeasible`, the reason.

    Args:
        fit: the training; None where it could not be built.
        need: as it was measured, where there is a GPU.
    """
    measured = "" if need is None else f" ({need})"
    if fit is None:
        return {"infeasible": f"out of memory{measured}: the model and its data can't be built"}
    try:
        found = fit.smaller_batch(need)
    except CannotTrain as error:
        return {"infeasible": f"out of memory{measured}: {error}"}
    rows, whole = count(found.rows, "row"), found.share * fit.config.workers
    notice = (
        f"out of memory{measured}: it goes on with micro-batches of {rows}, {found.accumulation} for each "
        f"step, so that its batch is {count(whole, 'row')} as before"
    )
    return {"micro_batch": found.rows, "notice": notice, "caution": NORMS if fit.depends_on_batch else ""}


def unfit(error: Exception) -> dict[str, Any]:
    """The result of a trial on a PC that can't train any: why, and which PC."""
    if isinstance(error, WorkerUnfit):
        return error.failure
    at = {"pc": platform.node(), "node": broadcast.here()}
    return {"done": True, "unfit": str(error), "at": at, "reason": str(error), "is_user_error": False}
