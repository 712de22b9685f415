"""Before the first trial of a sweep: the first steps of the largest point, in the process of that trial.

It is a trial of two steps that is not retried, of a number that no trial has.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Mapping
from typing import Any

import lightning.pytorch as pl
import torch

from sweeps.common.formatting import GB
from sweeps.training.trainer import Trainer
from sweeps.trial.messages import Failed, Finding, Left, OutOfMemory, Unfit
from sweeps.trial.runner import NO_TRIAL, TrialRunner, gpu_name

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
    steps = FirstSteps()
    not_retried = {"failures": math.inf}
    device = gpu_name()
    device_gb = torch.cuda.get_device_properties(0).total_memory / GB if torch.cuda.is_available() else 0.0
    runner.begin({**config, **not_retried, "number": NO_TRIAL, "steps": STEPS}, steps)
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


class FirstSteps(pl.Callback):
    """Times the last training batch and the last validation batch of a run that is cut short."""

    def __init__(self) -> None:
        self._step_s = self._val_batch_s = self._began = 0.0
        self._batches: int | None = None
        self._val_batches: int | None = 0  # a model need not be validated

    @property
    def epoch_s(self) -> float | None:
        """Seconds of a whole epoch with its validation; None where the data does not say how long it is."""
        if self._batches is None or self._val_batches is None:
            return None
        return self._batches * self._step_s + self._val_batches * self._val_batch_s

    def on_train_epoch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        self._batches, self._began = self._length(trainer, "train"), _now()

    def on_train_batch_end(self, *_: Any) -> None:
        self._step_s, self._began = _now() - self._began, _now()

    def on_validation_start(self, trainer: pl.Trainer, *_: Any) -> None:
        self._val_batches, self._began = self._length(trainer, "val"), _now()

    def on_validation_batch_end(self, *_: Any) -> None:
        self._val_batch_s, self._began = _now() - self._began, _now()

    def _length(self, trainer: pl.Trainer, part: str) -> int | None:
        """Batches of all loaders of a whole epoch; None where they are not known."""
        assert isinstance(trainer, Trainer)
        loaders: Any = trainer.train_dataloader if part == "train" else trainer.val_dataloaders
        each = loaders if isinstance(loaders, list | tuple) else [loaders]
        batches = [_limited(loader, trainer.whole_epoch.get(f"limit_{part}_batches")) for loader in each]
        return None if None in batches else sum(filter(None, batches))


def _limited(loader: Any, limit: float | int | None) -> int | None:
    """Batches of a loader within a limit; None where its length is not known."""
    try:
        batches = len(loader)
    except (TypeError, NotImplementedError):  # a DataLoader has a length only where its data set has one
        return limit if isinstance(limit, int) else None
    return min(batches, limit) if isinstance(limit, int) else int(batches * (1 if limit is None else limit))


def _now() -> float:
    """The time when the GPU has done what it was asked for."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()
