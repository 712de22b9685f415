"""A small network that reads handwritten digits. Change it into your own model."""

from dataclasses import dataclass

import lightning
from digits_data import Digits
from ray import tune
from torch import nn, optim

METRIC, MODE = "val_acc", "max"
SPACE = {"lr": tune.loguniform(1e-4, 1e-1), "width": tune.choice([16, 32, 64])}


@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 3e-3
    """Step size of AdamW, > 0."""
    width: int = 32
    """Hidden units."""
    batch_size: int = 64
    """Rows of a step."""


class Net(lightning.LightningModule):
    def __init__(self, params: Params) -> None:
        super().__init__()
        self.lr = params.lr
        self.layers = nn.Sequential(nn.Linear(64, params.width), nn.ReLU(), nn.Linear(params.width, 10))

    def training_step(self, batch, index):
        return nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def validation_step(self, batch, index):
        self.log("val_acc", (self.layers(batch[0]).argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        return optim.AdamW(self.parameters(), lr=self.lr)


build_model, build_data = Net, Digits
