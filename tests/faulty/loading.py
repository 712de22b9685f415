"""A trainable whose loaders have worker processes. Each batch takes $STEP_S.

The start of a loader, and the third training batch, write a file `starting` or `third`. $STOPS_BY is the
number of a signal that the first validation sends to all processes of its group: twice, and again with each
batch unless it is that of Ctrl-C, of which one that comes a second later stops at once.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, Dataset

METRIC, MODE = "score", "max"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Hyperparameters of the loaders."""

    start: str = "fork"
    """fork, spawn or forkserver: how the worker processes are started."""
    persistent: bool = False
    """Whether the worker processes live on after an epoch."""
    hangs: bool = False
    """Whether a worker process sleeps for ever before its third batch."""
    start_s: float = 0.0
    """Seconds that a loader takes to start."""
    batch_size: int = 1


class Rows(Dataset[torch.Tensor]):
    """Rows that take a while."""

    def __init__(self, hangs: bool) -> None:
        self.hangs = hangs

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(10**6 if self.hangs and index > 2 else float(os.environ["STEP_S"]))
        return torch.ones(1) * index


class SlowLoader(DataLoader[torch.Tensor]):
    """Writes a file `starting` before it starts."""

    start_s = 0.0

    def __iter__(self) -> Any:
        (Path(os.environ["TOY_ATTEMPTS"]) / "starting").touch()
        time.sleep(self.start_s)
        return super().__iter__()


class Net(pl.LightningModule):
    """One weight, which follows the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        if index == 2:
            (Path(os.environ["TOY_ATTEMPTS"]) / "third").touch()
        return ((self.weight - batch) ** 2).mean()

    def on_validation_start(self) -> None:
        if (stop := int(os.environ.get("STOPS_BY", 0))) and self.global_rank == self.current_epoch == 0:
            os.killpg(0, stop)
            os.killpg(0, stop)

    def validation_step(self, batch: torch.Tensor) -> None:
        if (stop := int(os.environ.get("STOPS_BY", 0))) not in (0, signal.SIGINT) and self.current_epoch == 0:
            os.killpg(0, stop)
        self.log("score", self.weight.detach().mean(), batch_size=1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.001)


class Data(pl.LightningDataModule):
    """Both loaders with two worker processes."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.params, self.batch_size = params, params.batch_size

    def train_dataloader(self) -> DataLoader[torch.Tensor]:
        return self._loader(self.params.hangs)

    def val_dataloader(self) -> DataLoader[torch.Tensor]:
        return self._loader(False)

    def _loader(self, hangs: bool) -> DataLoader[torch.Tensor]:
        loader = SlowLoader(
            Rows(hangs),
            self.batch_size,
            num_workers=2,
            persistent_workers=self.params.persistent,
            multiprocessing_context=self.params.start,
        )
        loader.start_s = self.params.start_s
        return loader


def build_model(params: Params) -> Net:
    return Net()


build_data = Data
