"""A convolutional network on color images that a `ParquetDataModule` reads: more bytes a row than digits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks._images import Array, Images
from sweeps.training.data.datamodule import Batch, ParquetDataModule
from trainables._shared.epoch_mean import MeanLogger

METRIC, MODE = "val_loss", "min"
BATCH_ROWS = 256


class Noise(Images):
    """Random pixels: rows are stored as they are, so a loader moves as many bytes as of photographs."""

    @property
    def array(self) -> Array:
        shape = (self.rows, self.side, self.side, 3)
        return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


@dataclass(frozen=True, kw_only=True)
class Params:
    """Where the rows are, and the size of the network."""

    folder: Path
    """Of the prepared rows."""
    width: int = 64
    """Channels of the first convolution, > 0."""
    batch_size: int = BATCH_ROWS
    """Rows of a batch, > 0."""


class Network(MeanLogger):
    """Four convolutions, of which each halves the image."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for channels in (width, 2 * width, 4 * width, 4 * width):
            layers += [nn.Conv2d(before, channels, 3, stride=2, padding=1), nn.BatchNorm2d(channels)]
            layers += [nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU()]
            before = channels
        self.net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Bytes [batch, side, side, 3] to logits [batch, 10]."""
        inputs = images.permute(0, 3, 1, 2).to(next(self.parameters()).dtype).div(255)
        logits: torch.Tensor = self.net(inputs)
        return logits

    def training_step(self, batch: Batch, index: int) -> torch.Tensor:
        loss = functional.cross_entropy(self(batch["image"]), batch["label"])
        self.log_mean("train_loss", loss, len(batch["label"]))
        return loss

    def validation_step(self, batch: Batch, index: int) -> None:
        loss = functional.cross_entropy(self(batch["image"]), batch["label"])
        self.log_mean("val_loss", loss, len(batch["label"]))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)


def build_model(params: Params) -> Network:
    return Network(params.width)


def build_data(params: Params) -> ParquetDataModule:
    return ParquetDataModule(params.folder, params.batch_size)
