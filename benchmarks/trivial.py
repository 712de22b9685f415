"""A trial that costs next to nothing: one parameter, one batch, one epoch's `fit()` of Lightning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader

METRIC, MODE = "score", "max"


@dataclass(frozen=True, kw_only=True)
class Params:
    """One hyperparameter, which is the score."""

    x: float = 0.0


class Trivial(pl.LightningModule):
    """Learns nothing; its score is its hyperparameter."""

    def __init__(self, x: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.x = x

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        return (self.weight * batch).sum()

    def on_train_epoch_end(self) -> None:
        self.log("score", self.x)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class OneBatch(pl.LightningDataModule):
    """One batch of one number."""

    def train_dataloader(self) -> DataLoader[torch.Tensor]:
        rows: Any = [torch.ones(1)]
        return DataLoader(rows, batch_size=None)


def build_model(params: Params) -> Trivial:
    return Trivial(params.x)


def build_data(params: Params) -> OneBatch:
    return OneBatch()
