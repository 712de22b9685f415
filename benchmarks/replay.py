"""A trainable that replays learning curves instead of training: one point of the table of `benchmarks.curves`.

Lightning's one `fit()` with its checkpoints, as of any trainable; the model has one weight and one batch.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader

from benchmarks import curves

METRIC, MODE = "val_acc", "max"


@dataclass(frozen=True, kw_only=True)
class Params:
    """A point by the position of each value, 0 the smallest."""

    dropout: int = 0
    width: int = 0
    batch_size: int = 0
    momentum: int = 0
    lr: int = 0
    curves_seed: int = 0
    """Whose curves are replayed."""
    pace: float = 0.0
    """Seconds that a second of the real training takes here."""


class Replay(pl.LightningModule):
    """Logs what the table says of each epoch.

    Args:
        scores: val_acc of each epoch.
        seconds: that each epoch takes.
    """

    def __init__(self, scores: tuple[float, ...], seconds: tuple[float, ...]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.scores, self.seconds = scores, seconds

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        time.sleep(self.seconds[self.current_epoch])
        return (self.weight * batch).sum()

    def on_train_epoch_end(self) -> None:
        self.log("val_acc", self.scores[self.current_epoch])

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class OneBatch(pl.LightningDataModule):
    """One batch of one number."""

    def train_dataloader(self) -> DataLoader[torch.Tensor]:
        rows: Any = [torch.ones(1)]
        return DataLoader(rows, batch_size=None)


def build_model(params: Params) -> Replay:
    table = curves.load()
    key = table.place(vars(params)), params.curves_seed
    return Replay(table.scores[key], tuple(params.pace * seconds for seconds in table.seconds[key]))


def build_data(params: Params) -> OneBatch:
    return OneBatch()
