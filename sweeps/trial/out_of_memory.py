"""How a trial goes on whose memory has run out, as its result says it."""

from __future__ import annotations

from typing import Any

from sweeps.common.errors import CannotTrain
from sweeps.common.formatting import count
from sweeps.training.fit_loop import Fit
from sweeps.training.profiling.memory import Need

NORMS = (
    "; its batch normalization sees fewer rows at a time, so its result differs from that of whole batches"
)


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
