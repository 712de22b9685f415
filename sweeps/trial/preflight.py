"""Before the first trial of a process: the first steps of other points, in the same process.

Each is a trial of two steps that is not retried, of a number that no trial has.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import ray
import torch

from sweeps.common.formatting import GB
from sweeps.training import first_steps
from sweeps.training.first_steps import FirstSteps
from sweeps.trial.messages import End, Failed, Finding, Left, OutOfMemory, Unfit
from sweeps.trial.runner import NO_TRIAL, TrialRunner, gpu_name


def findings(
    runner: TrialRunner,
    configs: Sequence[Mapping[str, Any]],
    own: Mapping[str, Any] | None = None,
    mailbox: Any = None,
) -> list[Finding] | None:
    """Train the first steps of points, and of a trial's own one where one of them is broken.

    Args:
        runner: of this process.
        configs: of the points, as `SweepTrial` has those of trials.
        own: that of the trial.
        mailbox: where one process of each kind of device claims to do it; None: this one does.

    Returns:
        What was found; [] where another process does it; None where nothing was found out, since this PC can
        train no trial (the trial tells that), or since it was asked to leave its run.
    """
    if mailbox is not None and not ray.get(mailbox.claim.remote(f"preflight on {_kind()}")):
        return []
    try:
        found: list[Finding] = []
        for config in configs:
            found.append(_finding(runner, config))
            if found[-1].is_last:
                return found
        if own is not None and any(each.is_broken for each in found):
            found.append(_finding(runner, own))
    except _NothingFoundOut:
        return None
    return found


class _NothingFoundOut(Exception):
    """The first steps were not trained, for no fault of the point."""


def _finding(runner: TrialRunner, config: Mapping[str, Any]) -> Finding:
    steps = FirstSteps()
    not_retried = {"failures": math.inf}
    device = gpu_name()
    device_gb = torch.cuda.get_device_properties(0).total_memory / GB if torch.cuda.is_available() else 0.0
    runner.begin({**config, **not_retried, "number": NO_TRIAL, "steps": first_steps.STEPS}, steps)
    message = runner.step()
    checkpoint_bytes = runner.checkpoint_bytes
    runner.end()
    if isinstance(message.end, Unfit | Left):
        raise _NothingFoundOut
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
        **_shown(message.end, steps),
    )


def _shown(end: End | None, steps: FirstSteps) -> dict[str, Any]:
    """How long an epoch takes, or why a point does not train as it is, as `Finding` has it."""
    match end:
        case OutOfMemory(reason=reason, micro_batch=rows, caution=caution):
            return {"reason": reason + caution, "is_out_of_memory": True, "is_infeasible": rows is None}
        case Failed(reason=reason, traceback=text, is_user_error=is_user_error):
            return {"reason": reason, "traceback": "" if is_user_error else text}
        case _:
            return {"epoch_s": steps.epoch_s}


def _kind() -> str:
    """What processes of the same speed and memory have in common: the kind of GPU, else the PC."""
    return gpu_name() or platform.node()
