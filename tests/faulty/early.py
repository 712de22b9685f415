"""A trainable that goes wrong in its first steps: always, or only where it is large."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from ray import tune
from torch.utils.data import DataLoader, TensorDataset

METRIC, MODE = "score", "max"
SPACE = {"size": tune.choice([1, 2, 3, 4]), "lr": tune.uniform(0.1, 0.2)}
LARGE = 4


@dataclass(frozen=True, kw_only=True)
class Params:
    """Hyperparameters of the toy."""

    fault: Literal["none", "mute", "build", "step", "dies"] = "none"
    """mute: it never logs its metric; build, step: it raises there; dies: its process ends in a step."""
    only_large: bool = False
    """Whether only one of the largest size goes wrong."""
    size: int = 1
    """Nothing depends on it but the fault."""
    lr: float = 0.1
    """Step size of SGD."""


class Early(pl.LightningModule):
    """One weight."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.lr = params.lr
        self.fault = params.fault if params.size == LARGE or not params.only_large else "none"
        self.weight = torch.nn.Parameter(torch.zeros(1))
        if self.fault == "build":
            raise RuntimeError("the toy can't be built")

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        if self.fault == "step":
            raise RuntimeError("the toy can't take a step")
        if self.fault == "dies":
            os._exit(7)
        return ((self.weight - batch[0].mean()) ** 2).sum()

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        self.log("other" if self.fault == "mute" else "score", self.weight.sum())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=self.lr)


def build_model(params: Params) -> Early:
    return Early(params)


def build_data(params: Params) -> pl.LightningDataModule:
    rows: Any = TensorDataset(torch.rand(64, 1, generator=torch.Generator().manual_seed(0)))
    loader: DataLoader[Any] = DataLoader(rows, batch_size=4)
    return pl.LightningDataModule.from_datasets(loader.dataset, loader.dataset, batch_size=4)
