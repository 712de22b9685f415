"""Stop a sweep whose first trials all fail with the same error: the others would only repeat it."""

from __future__ import annotations

import re

from sweeps.execution.run_context import RunContext

LEAST = 3
"""Trials that must have failed, or as many as run at a time."""
UNDECIDED = ("unfinished", "infeasible")
"""Such a trial says nothing of the others, unless it has trained further than those that failed."""


def why_to_stop(context: RunContext) -> str:
    """The error with which all trials so far have failed; "" where one has not, or too few have."""
    reasons, furthest, furthest_of_others = list[str](), 0, 0
    for trial in context.record.searched if not context.config.keep_going else ():
        if trial.status == "failed":
            reasons.append(trial.reason)
            furthest = max(furthest, len(trial.epochs))
        elif trial.status in UNDECIDED:
            furthest_of_others = max(furthest_of_others, len(trial.epochs))
        else:
            return ""
    few = len(reasons) < max(LEAST, context.slots(context.gpus_per_trial))
    if few or furthest_of_others > furthest or len(set(map(_kind, reasons))) > 1:
        return ""
    return f"the first {len(reasons)} trials all failed: {reasons[-1]}. Add --keep-going to train on"


def _kind(reason: str) -> str:
    """An error without its numbers: sizes, addresses and steps differ from trial to trial."""
    return re.sub(r"0x[0-9a-f]+|\d[\d.,]*", "#", reason)
