"""Single runs on the GPU, in this process."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from sweeps.training.config import FitConfig
from sweeps.training.report import Position, Report
from sweeps.training.runs.fit_loop import Fit
from tests.support.trainables import as_trainable, run_through
from trainables import digits_mlp
from trainables._shared.classifier import SgdClassifier

EPOCHS = 3
NEEDS_GPU = (
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
)

SHARDED = (
    "fsdp",
    "fsdp_full",
    "deepspeed_stage_1",
    "deepspeed_stage_2",
    "deepspeed_stage_2_offload",
    "deepspeed_stage_3",
    "deepspeed_stage_3_offload",
)
"""Strategies that shard."""
STRATEGIES = ("single", "ddp", *SHARDED)


def config(**settings: Any) -> FitConfig:
    return FitConfig(
        **{"metric": "val_acc", "mode": "max", "max_epochs": EPOCHS, "strategy": "single", **settings}
    )


def trained(
    trainable: ModuleType | Any,
    params: Any,
    *callbacks: pl.Callback,
    checkpoint: Path | None = None,
    until: Callable[[Report], bool] = lambda epoch: True,
    **settings: Any,
) -> tuple[Fit, list[Report]]:
    """A run, and its epochs.

    Args:
        trainable: what is trained.
        params: an instance of its Params.
        callbacks: of Lightning.
        checkpoint: to resume from.
        until: whether to train on after an epoch.
        settings: of FitConfig.
    """
    seen: list[Report] = []

    def on_epoch(epoch: Report | Position) -> bool:
        assert isinstance(epoch, Report)
        seen.append(epoch)
        return until(epoch)

    fit = Fit(as_trainable(trainable), params, config(**settings), checkpoint)
    run_through(fit, on_epoch, callbacks=callbacks)
    return fit, seen


def digits(
    *callbacks: pl.Callback, params: digits_mlp.Params | None = None, **more: Any
) -> tuple[Fit, list[Report]]:
    """A run of the MLP on digits."""
    return trained(digits_mlp, params or digits_mlp.Params(lr=0.02), *callbacks, **more)


class Overflowing(SgdClassifier):
    """Its loss is multiplied by 1e30 in some steps of the first epoch."""

    steps: tuple[int, ...] = ()

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        is_too_large = index in self.steps and self.current_epoch == 0
        return super().training_step(batch, index) * (1e30 if is_too_large else 1.0)


def overflowing(*steps: int) -> Any:
    """digits_mlp, whose loss overflows in these steps of the first epoch."""

    def build_model(params: digits_mlp.Params) -> Overflowing:
        net = digits_mlp.build_model(params).net
        model = Overflowing(net, lr=params.lr, momentum=params.momentum, weight_decay=0.0)
        model.steps = steps
        return model

    return SimpleNamespace(build_model=build_model, build_data=digits_mlp.build_data)


class Watch(pl.Callback):
    """Notes the weights before and after each step."""

    def __init__(self) -> None:
        self.changed: list[bool] = []
        self.scales: list[float] = []
        """Of the loss, after each step."""
        self._before: torch.Tensor | None = None

    @staticmethod
    def _weights(module: pl.LightningModule) -> torch.Tensor:
        return torch.cat([weight.detach().float().flatten() for weight in module.parameters()]).clone()

    def on_train_batch_start(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        self._before = self._weights(module)

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        assert self._before is not None
        self.changed.append(not torch.equal(self._before, self._weights(module)))
        self.scales.append(loss_scale(trainer))


def loss_scale(trainer: pl.Trainer) -> float:
    """Of fp16 by PyTorch or by DeepSpeed; nan without one."""
    if (scaler := getattr(trainer.precision_plugin, "scaler", None)) is not None:
        return float(scaler.get_scale())
    optimizer = getattr(trainer.strategy.model, "optimizer", None)
    return float(getattr(optimizer, "cur_scale", math.nan))
