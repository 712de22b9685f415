"""A toy whose score is its slope and what its seed draws; one above `fragile_above` breaks with other seeds.

Each epoch it also logs what the seed gave its weight, and which row came first.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

METRIC, MODE = "score", "max"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Hyperparameters of the toy."""

    slope: float = 1.0
    """What it is worth."""
    luck: float = 0.01
    """How much its seed adds, at most."""
    fragile_above: float = 9.0
    """Slope from which on it breaks in its second epoch, but for seed 0."""
    epoch_s: float = 0.0
    """Seconds an epoch sleeps."""


class Lucky(pl.LightningModule):
    """One weight, which is never stepped."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.params = params
        self.is_broken = params.slope > params.fragile_above and torch.initial_seed() != 0
        self.weight = torch.nn.Parameter(torch.rand(1))
        self.first_row = -1.0

    def on_train_epoch_start(self) -> None:
        time.sleep(self.params.epoch_s)
        self.first_row = -1.0
        if self.is_broken and self.current_epoch == 1:
            raise RuntimeError("broke with another seed")

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        if self.first_row < 0:
            self.first_row = float(batch[0][0])
        return (self.weight * 0).sum()

    def on_train_epoch_end(self) -> None:
        drawn = float(self.weight.detach())
        gained = self.params.slope * (self.current_epoch + 1)
        self.log_dict(
            {"score": gained + self.params.luck * drawn, "drawn": drawn, "first_row": self.first_row}
        )

    def test_step(self, batch: list[torch.Tensor], index: int) -> None:
        self.log("test_score", self.weight.detach().sum())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def build_model(params: Params) -> Lucky:
    return Lucky(params)


class Rows(pl.LightningDataModule):
    """A hundred numbered rows."""

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(TensorDataset(torch.arange(100.0)), batch_size=10, shuffle=True)

    def test_dataloader(self) -> DataLoader[Any]:
        return DataLoader(TensorDataset(torch.arange(10.0)), batch_size=10)


def build_data(params: Params) -> Rows:
    return Rows()
