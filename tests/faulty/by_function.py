"""A function that trains: one weight by stochastic gradient descent, with a random part that a resume must
repeat."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from ray import tune

METRIC, MODE = "val_score", "max"
SPACE = {"lr": tune.loguniform(1e-3, 1.0), "size": tune.choice([1, 2, 4])}


def train(params: Any, trial: Any) -> None:
    weights = torch.zeros(params.size)
    if trial.checkpoint:
        weights = torch.load(trial.checkpoint / "inside" / "state.pt")
    for _ in trial.epochs:
        weights += params.lr * (1 + 0.1 * torch.randn(params.size) - weights)
        time.sleep(float(os.environ.get("EPOCH_S", "0")))
        trial.report({"val_score": -(weights - 1).square().mean()}, save=partial(save, weights))


def save(weights: torch.Tensor, folder: Path) -> None:
    (folder / "inside").mkdir()
    torch.save(weights, folder / "inside" / "state.pt")
