"""Before the first trial of a sweep: the first steps of the largest point, in the process of that trial.

It is a trial of two steps that is not retried, of a number that no trial has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sweeps.trial.first_steps import EPOCH_S
from sweeps.trial.messages import Finding, Left, Unfit
from sweeps.trial.runner import NO_TRIAL, TrialRunner

STEPS = 2
"""The first one also loads kernels and asks for memory."""


def findings(
    runner: TrialRunner, config: Mapping[str, Any], own: Mapping[str, Any] | None = None
) -> list[Finding]:
    """Train the first steps of a point, and where it is broken also those of the trial's own one.

    Args:
        runner: of this process.
        config: of the point, as `SweepTrial` has that of a trial.
        own: that of the trial.

    Returns:
        What was found; [] where nothing was found out, since this PC can train no trial (the trial tells
        that), or since the process was asked to leave its run.
    """
    found = _finding(runner, config)
    if found is None or not found.is_broken or found.is_last or own is None:
        return [] if found is None else [found]
    of_own = _finding(runner, own)
    return [] if of_own is None else [found, of_own]


def _finding(runner: TrialRunner, config: Mapping[str, Any]) -> Finding | None:
    not_retried = {"failures": math.inf}
    runner.begin({**config, **not_retried, "number": NO_TRIAL, "steps": STEPS})
    message = runner.step()
    checkpoint_bytes = runner.checkpoint_bytes
    runner.end()
    if isinstance(message.end, Unfit | Left):
        return None
    report, host = message.report, runner.hosts[0]
    costs = report.costs if report is not None else {}
    return Finding(
        trainable=config["trainable"],
        params=config["params"],
        pc=host.pc,
        device=host.gpu,
        device_gb=host.gpu_gb,
        memory_gb=costs.get("gpu_memory_gb", costs.get("memory_gb", 0.0)),
        checkpoint_bytes=checkpoint_bytes,
        is_last=runner.is_broken,
        end=message.end,
        epoch_s=report.metrics.get(EPOCH_S) if report is not None else None,
    )
