"""Before the first trial of a sweep: the first steps of the largest point, in the process of that trial.

It is a trial of two steps that is not retried, of a number that no trial has.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from typing import Any

import torch

from sweeps.common.formatting import GB
from sweeps.training import first_steps
from sweeps.training.first_steps import FirstSteps
from sweeps.trial.messages import Failed, Finding, Left, OutOfMemory, Unfit
from sweeps.trial.runner import NO_TRIAL, TrialRunner, gpu_name


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
    steps = FirstSteps()
    not_retried = {"failures": math.inf}
    device = gpu_name()
    device_gb = torch.cuda.get_device_properties(0).total_memory / GB if torch.cuda.is_available() else 0.0
    runner.begin({**config, **not_retried, "number": NO_TRIAL, "steps": first_steps.STEPS}, steps)
    message = runner.step()
    checkpoint_bytes = runner.checkpoint_bytes
    runner.end()
    if isinstance(message.end, Unfit | Left):
        return None
    costs = message.report.costs if message.report is not None else {}
    return Finding(
        trainable=config["trainable"],
        params=config["params"],
        pc=platform.node(),
        device=device,
        device_gb=device_gb,
        memory_gb=costs.get("gpu_memory_gb", costs.get("memory_gb", 0.0)),
        checkpoint_bytes=checkpoint_bytes,
        is_last=runner.is_broken,
        end=message.end,
        epoch_s=None if isinstance(message.end, Failed | OutOfMemory) else steps.epoch_s,
    )
