"""Stop a sweep whose first trials all fail with the same error: the others would only repeat it."""

from __future__ import annotations

import re

from sweeps.execution.driver import Driver

LEAST = 3
"""Trials that must have failed, or as many as run at a time."""


def why_to_stop(driver: Driver) -> str:
    """The error with which all trials so far have failed; "" where one did not, or too few have ended."""
    if driver.config.keep_going:
        return ""
    ended = [trial for trial in driver.record.searched if trial.status != "unfinished"]
    if len(ended) < max(LEAST, driver.slots(driver.gpus_per_trial)):
        return ""
    if {trial.status for trial in ended} != {"failed"} or len({_kind(trial.reason) for trial in ended}) > 1:
        return ""
    return f"the first {len(ended)} trials all failed: {ended[-1].reason}. Add --keep-going to train on"


def _kind(reason: str) -> str:
    """An error without its numbers: sizes, addresses and steps differ from trial to trial."""
    return re.sub(r"0x[0-9a-f]+|\d[\d.,]*", "#", reason)
