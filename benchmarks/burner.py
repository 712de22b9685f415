"""A trial that computes for a given CPU time in each epoch, on as many threads as it has CPUs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from ray import tune

METRIC, MODE = "score", "max"
SPACE = {"x": tune.uniform(0.0, 1.0)}


@dataclass(frozen=True, kw_only=True)
class Params:
    """A hyperparameter, which is the score, and the work."""

    x: float = 0.0
    epoch_cpu_s: float = 1.0
    """CPU seconds of an epoch, of all threads together."""


def train(params: Params, trial: Any) -> None:
    """Compute, and keep that it was computed."""
    numbers = torch.rand(400, 400)
    for _ in trial.epochs:
        ends = time.process_time() + params.epoch_cpu_s
        while time.process_time() < ends:
            torch.mm(numbers, numbers)
        trial.report({"score": params.x}, save=_save)


def _save(folder: Path) -> None:
    (folder / "trained").write_text("")
