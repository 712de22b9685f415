"""A toy whose accuracy grows with its width and its epochs, and whose size grows with its width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
import torch
from ray import tune

from tests.faulty.lucky import Rows

METRIC, MODE = "acc", "max"
SPACE = {"width": tune.randint(1, 100), "waste": tune.uniform(0.0, 0.5)}


@dataclass(frozen=True, kw_only=True)
class Params:
    """Hyperparameters of the toy."""

    width: int = 10
    """What its accuracy and its size grow with."""
    waste: float = 0.0
    """Accuracy that it loses for nothing."""
    bad_epoch: int = 0
    """Epoch, 1-based, from which on its size is nan; 0: never."""


def size_m(params: Params) -> float:
    return params.width / 10


class TwoMetrics(pl.LightningModule):
    """One weight, which is never stepped."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.params = params
        self.weight = torch.nn.Parameter(torch.rand(1))

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        return (self.weight * 0).sum()

    def on_train_epoch_end(self) -> None:
        epoch, params = self.current_epoch + 1, self.params
        acc = 1 - 1 / (1 + params.width * epoch / 50) - params.waste
        is_bad = 0 < params.bad_epoch <= epoch
        self.log_dict({"acc": acc, "size_m": float("nan") if is_bad else size_m(params)})

    def test_step(self, batch: list[torch.Tensor], index: int) -> None:
        self.log("test_acc", self.weight.detach().sum())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def build_model(params: Params) -> TwoMetrics:
    return TwoMetrics(params)


def build_data(params: Params) -> Rows:
    return Rows()
