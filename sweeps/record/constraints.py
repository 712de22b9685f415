"""Trials that miss a constraint: they are infeasible, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from sweeps.common.formatting import short
from sweeps.common.objective import Constraint, Objectives
from sweeps.record.ranking import RankedTrials
from sweeps.record.trials import ENDED_WELL, Status, TrialRow

MISSES = "misses the constraint"
FIRST = 10
"""Trials after which it is told that none has met the constraints."""


def why_missed(objectives: Objectives, metrics: Mapping[str, float]) -> str:
    """`params_m 7.2 misses the constraint params_m<=5`, of each that is missed by metrics; "" where none is.
    One whose metric is not among them is not judged."""
    return "; ".join(
        f"{each.metric} {_shown(metrics[each.metric], each)} {MISSES} {each}"
        for each in objectives.constraints
        if _is_missed_by(each, metrics)
    )


def end_of(trial: TrialRow, objectives: Objectives, status: Status, reason: str) -> tuple[Status, str]:
    """Status and reason of a trial that ends: infeasible where it ended well, and its best epoch misses a
    constraint."""
    epoch = trial.best_epoch(objectives.first)
    if status not in ENDED_WELL or epoch is None:
        return status, reason
    why = why_missed(objectives, _judged(trial, objectives))
    return ("infeasible", f"{why} in epoch {epoch}") if why else (status, reason)


def is_missed(trial: TrialRow) -> bool:
    """Whether a trial is infeasible because it misses a constraint, and not for want of memory."""
    return trial.status == "infeasible" and MISSES in trial.reason


def meets(trial: TrialRow, objectives: Objectives) -> bool:
    """Whether the best epoch of a trial meets all constraints."""
    losses = trial.losses(objectives)
    return losses is not None and losses[0] == 0


def unmet(record: RankedTrials) -> str:
    """That the first trials have all missed the constraints, and by how much; "" where one has met them, or
    too few have missed them."""
    objectives, trials = record.objectives, record.searched
    if not objectives.constraints or any(meets(trial, objectives) for trial in trials):
        return ""
    missed = [trial for trial in trials if is_missed(trial)]
    if len(missed) < FIRST:
        return ""
    named = [_nearest(each, missed, objectives) for each in objectives.constraints]
    return (
        f"None of the first {len(missed)} trials meets the constraints: "
        f"{'; '.join(filter(None, named))}. If no point of the space can, stop the sweep, and begin one "
        "with another --constraint or space"
    )


def _judged(trial: TrialRow, objectives: Objectives) -> Mapping[str, float]:
    """The metrics by which a trial meets its constraints: those of its best epoch, or of one that is not
    trained those that are known."""
    if (epoch := trial.best_epoch(objectives.first)) is None:
        return trial.static_metrics
    row = trial.epochs[epoch]
    return {**row.metrics, objectives.first.metric: row.score}


def _is_missed_by(constraint: Constraint, metrics: Mapping[str, float]) -> bool:
    return constraint.metric in metrics and constraint.excess(metrics) > 0


def _nearest(constraint: Constraint, missed: list[TrialRow], objectives: Objectives) -> str:
    """`params_m<=5 (the nearest was 5.3)`; "" where no trial missed this one."""
    judged = (_judged(trial, objectives) for trial in missed)
    found = [metrics for metrics in judged if _is_missed_by(constraint, metrics)]
    if not found:
        return ""
    nearest = min(found, key=constraint.excess)[constraint.metric]
    return f"{constraint} (the nearest was {_shown(nearest, constraint)})"


def _shown(value: float, constraint: Constraint) -> str:
    """A value that misses a constraint, in as many digits as show that."""
    text = short(value)
    return text if constraint.excess({constraint.metric: float(text)}) else str(value)
