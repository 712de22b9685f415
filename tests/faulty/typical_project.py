"""A model as Lightning projects write theirs.

It has averaged weights, layers and a split made in `setup`, own loaders, a schedule that counts steps, and
calls of the logger. Its test rows are its validation rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

METRIC, MODE = "val_loss", "min"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Hyperparameters."""

    lr: float = 0.1
    """Step size at the start."""


def all_rows() -> TensorDataset:
    x = torch.linspace(-1, 1, 200).unsqueeze(1)
    return TensorDataset(torch.arange(200.0).unsqueeze(1), x, x**2)


class Net(pl.LightningModule):
    """Fits a parabola."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.lr = params.lr

    def setup(self, stage: str) -> None:
        self.net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
        self.train_rows, self.val_rows = random_split(all_rows(), [150, 50])

    def train_dataloader(self) -> Any:
        return DataLoader(self.train_rows, 25, shuffle=True)

    def val_dataloader(self) -> Any:
        return DataLoader(self.val_rows, 50)

    test_dataloader = val_dataloader

    def loss(self, batch: Any) -> torch.Tensor:
        return nn.functional.mse_loss(self.net(batch[1]), batch[2])

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return self.loss(batch)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        logger: Any = self.logger
        logger.experiment.add_scalar("sum_of_rows", batch[0].sum(), self.global_step)
        logger.experiment.add_image("rows", batch[0], self.global_step)
        self.log("val_loss", self.loss(batch))

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self.log("test_loss", self.loss(batch))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), self.lr)
        share = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / self.trainer.max_steps)
        return [optimizer], [{"scheduler": share, "interval": "step"}]

    def on_train_epoch_end(self) -> None:
        schedule: Any = self.lr_schedulers()
        self.log("share_of_lr", schedule.get_last_lr()[0] / self.lr)


def build_model(params: Params) -> Net:
    return Net(params)


def build_data(params: Params) -> None:
    """The model has its own loaders."""


def trainer_options(params: Params) -> dict[str, Any]:
    return {"callbacks": [EMAWeightAveraging(decay=0.8)]}
