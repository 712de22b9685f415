"""Trials that miss a constraint: they are infeasible, with the reason."""

from __future__ import annotations

import math
import re
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
        f"{each.metric} {short(metrics[each.metric])} {MISSES} {each}"
        for each in objectives.constraints
        if each.metric in metrics and each.excess(metrics)
    )


def end_of(trial: TrialRow, objectives: Objectives, status: Status, reason: str) -> tuple[Status, str]:
    """Status and reason of a trial that ends: infeasible where it ended well, and its best epoch misses a
    constraint."""
    epoch = trial.best_epoch(objectives.first)
    if status not in ENDED_WELL or epoch is None:
        return status, reason
    why = why_missed(objectives, trial.epochs[epoch].metrics)
    return ("infeasible", f"{why} in epoch {epoch}") if why else (status, reason)


def is_missed(trial: TrialRow) -> bool:
    """Whether a trial is infeasible because it misses a constraint, and not for want of memory."""
    return trial.status == "infeasible" and MISSES in trial.reason


def unmet(record: RankedTrials) -> str:
    """What to tell where no trial has met the constraints, and the first ones have missed them; else ""."""
    objectives = record.objectives
    missed = [trial for trial in record.searched if is_missed(trial)]
    if len(missed) < FIRST or any(_meets(trial, objectives) for trial in record.searched):
        return ""
    named = [_nearest(each, missed) for each in objectives.constraints]
    return (
        f"None of the first {len(missed)} trials meets the constraints: {'; '.join(filter(None, named))}. If "
        "no point of the space can, stop the sweep, and begin one with another --constraint or space"
    )


def _meets(trial: TrialRow, objectives: Objectives) -> bool:
    """Whether any of its epochs meets all."""
    return any(objectives.losses(row.score, row.metrics)[0] == 0 for row in trial.epochs.values())


def _nearest(constraint: Constraint, missed: list[TrialRow]) -> str:
    """`params_m<=5 (the nearest was 5.3)`, by the reasons of the trials; "" where none missed this one."""
    pattern = re.compile(
        rf"(?:^|; ){re.escape(constraint.metric)} (\S+) {MISSES} {re.escape(str(constraint))}"
    )
    found = (match[1] for trial in missed if (match := pattern.search(trial.reason)))
    values = [float(text.replace(",", "")) for text in found]
    if not values:
        return ""
    nearest = min(values, key=lambda value: constraint.excess({constraint.metric: value}))
    return f"{constraint} (the nearest was {short(nearest) if math.isfinite(nearest) else nearest})"
