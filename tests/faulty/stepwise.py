"""A trainable on prepared data whose steps take $STEP_S seconds: time to stop a sweep inside an epoch.

$RAISES_ONCE is a file that it makes when it raises in its third epoch; after that it raises no more.
$BEGUN is one that it makes in its first step. $STOPS_BY is the number of a signal that it sends to all
processes of its group in its second epoch.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from ray import tune
from torch import nn

from sweeps.training import ParquetDataModule

METRIC, MODE = "val_loss", "min"
SPACE = {"lr": tune.loguniform(1e-3, 1e-1)}
PREPARE_PARAMS = ()


@dataclass(frozen=True, kw_only=True)
class Params:
    """Hyperparameters."""

    lr: float = 0.01
    """Adam's step size, > 0."""


class Net(pl.LightningModule):
    """Draws random numbers in each step."""

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        self._lr = lr

    def training_step(self, batch: Mapping[str, torch.Tensor], index: int) -> torch.Tensor:
        if begun := os.environ.get("BEGUN"):
            Path(begun).touch()
        time.sleep(float(os.environ.get("STEP_S", "0")))
        if (stop := os.environ.get("STOPS_BY")) and (self.current_epoch, index) == (1, 7):
            os.killpg(0, int(stop))
        if self.current_epoch == 2 and (mark := os.environ.get("RAISES_ONCE")) and not Path(mark).exists():
            Path(mark).touch()
            os.kill(os.getpid(), signal.SIGUSR2)  # asked to leave at this very moment
            raise RuntimeError("once")
        return nn.functional.mse_loss(self.net(batch["x"])[:, 0], batch["y"])

    def validation_step(self, batch: Mapping[str, torch.Tensor], index: int) -> None:
        loss = nn.functional.mse_loss(self.net(batch["x"])[:, 0], batch["y"])
        self.log("val_loss", loss, batch_size=len(batch["y"]))

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=self._lr)


def raw_items(params: Any) -> dict[str, list[Path]]:
    here = Path(__file__)  # any file: the rows are drawn
    return {"train": [here], "val": [here.with_name("toy.py")]}


def prepare(item: Path, params: Any) -> Iterator[Mapping[str, np.ndarray[Any, Any]]]:
    draw = np.random.default_rng(0)
    yield {"x": draw.random((400, 4), np.float32), "y": draw.random(400, np.float32)}


def build_model(params: Params) -> Net:
    return Net(params.lr)


def build_data(params: Params, prepared: Path) -> ParquetDataModule:
    return ParquetDataModule(prepared, 8)
