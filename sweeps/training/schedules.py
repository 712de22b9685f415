"""For how many epochs the schedules of a learning rate are made, and a new start of them behind an epoch."""

from __future__ import annotations

import math
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    LinearLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
)

from sweeps.training.torch_internals import parts_of_schedule
from sweeps.training.trainer import Trainer

ENDS = {
    OneCycleLR: "total_steps",
    CosineAnnealingLR: "T_max",
    LinearLR: "total_iters",
    PolynomialLR: "total_iters",
    ConstantLR: "total_iters",
}
"""Schedules of PyTorch that have an end, and the attribute that holds it."""


def length_of(trainer: Trainer, passes: int, begin: int, end: int) -> dict[str, Any]:
    """For how many epochs the schedules of a run are made: `epochs`, 0 where they depend on no number of
    epochs; in `words`, by what that is known; and `is_final`, whether no step can be taken behind them.

    Args:
        trainer: has trained an epoch.
        passes: of Lightning's epochs, those of an epoch here.
        begin: epochs behind which the schedules began.
        end: the last epoch of the run.
    """
    for config in trainer.lr_scheduler_configs:
        if isinstance(config.scheduler, ReduceLROnPlateau):
            continue
        steps = 1 if config.interval == "epoch" else _steps_of_epoch(trainer)
        for begins, part in parts_of_schedule(config.scheduler):
            name = ENDS.get(type(part))
            if name is None or not steps:
                continue
            length = vars(part)[name]
            epochs = begin + (begins + length) * config.frequency / (steps * passes)
            if epochs >= end - 1:  # a warm-up ends before
                words = f"{type(part).__name__}, {name} {length}"
                return {"epochs": round(epochs, 3), "words": words, "is_final": type(part) is OneCycleLR}
    if trainer.read_length:
        return {"epochs": end, "words": f"the model reads trainer.{trainer.read_length}"}
    return {"epochs": 0}


def settings_of(optimizer: Optimizer) -> list[dict[str, Any]]:
    """The settings of each of its parameter groups, such as the learning rate."""
    return [
        {name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups
    ]


def set_settings(optimizer: Optimizer, settings: list[dict[str, Any]]) -> None:
    """Set what `settings_of` has returned."""
    for group, own in zip(optimizer.param_groups, settings, strict=True):
        group.update(own)


def _steps_of_epoch(trainer: Trainer) -> int:
    batches = trainer.num_training_batches
    return 0 if batches == math.inf else math.ceil(batches / trainer.accumulate_grad_batches)
