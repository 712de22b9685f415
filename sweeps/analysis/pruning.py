"""What happened to the trials at each rung, and whether some were stopped too early."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from statistics import median

import numpy as np

from sweeps.common.formatting import duration
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.search.rungs import rungs


def at_rungs(record: Record) -> list[list[str]]:
    """A row, in words, per rung that a trial of the search has reached; none where nothing is pruned.

    Its cells: the epoch; trials that reached it, continued without waiting, continued after a wait, were
    stopped; of those, how many would have led at the next rung, or the end, as estimated by those that
    reached it.
    """
    if record.info.settings.scheduler == "none":
        return []
    rows = itertools.starmap(partial(_at_rung, record), itertools.pairwise(judged_at(record)))
    return [row for row in rows if row]


def judged_at(record: Record) -> list[int]:
    """The rungs of a sweep, then its last epoch; none of a record that does not name them."""
    config, is_known = record.info.settings, "max_epochs" in record.info.identity["settings"]
    return [*rungs(config), config.max_epochs] if is_known else []


def _at_rung(record: Record, epoch: int, next_epoch: int) -> list[str]:
    if not (there := [trial for trial in record.searched if epoch in trial.epochs]):
        return []
    stopped = [trial for trial in there if trial.status == "pruned" and max(trial.epochs) == epoch]
    continued = [trial for trial in there if epoch + 1 in trial.epochs]
    paused = [trial.pauses[epoch] for trial in continued if epoch in trial.pauses]
    waits_s = [pause.ended - pause.began for pause in paused if pause.ended is not None]
    in_vain = sum(epoch in trial.pauses for trial in stopped)
    leaders = _leaders(record, there, stopped, epoch, next_epoch)
    return [
        *map(str, (epoch, len(there), len(continued) - len(paused))),
        str(len(paused)) + (f" for {duration(median(waits_s))} (median)" if waits_s else ""),
        str(len(stopped)) + (f", {in_vain} of them after a wait" if in_vain else ""),
        "not known" if leaders is None else f"about {leaders:.1f}",
    ]


def _leaders(
    record: Record, there: Sequence[TrialRow], stopped: Sequence[TrialRow], epoch: int, next_epoch: int
) -> float | None:
    """Sum of the probabilities that a stopped trial would have beaten all others at the next rung, by a line
    through the scores of those that reached both, with normal residuals; None of too few of these, or of
    several objectives."""
    if record.objectives.are_several:  # a line has no order of fronts
        return None
    sign = record.objective.sign
    both = [trial for trial in there if next_epoch in trial.epochs]
    first, last = (np.array([sign * t.epochs[e].score for t in both]) for e in (epoch, next_epoch))
    sound = np.isfinite(first) & np.isfinite(last)
    first, last = first[sound], last[sound]
    if len(first) < 5 or np.ptp(first) == 0 or np.ptp(last) == 0:
        return None
    slope, start = np.polyfit(first, last, 1)
    if slope < 0:  # the line says nothing about those that were worse
        slope, start = 0.0, last.mean()
    residual = math.sqrt(float(((last - start - slope * first) ** 2).sum()) / (len(first) - 2))
    scores = np.array([sign * trial.epochs[epoch].score for trial in stopped])
    behind = last.max() - start - slope * scores[np.isfinite(scores)]
    from scipy.stats import norm  # as above

    return float(norm.sf(behind, scale=max(residual, 1e-12)).sum())
