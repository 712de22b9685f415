"""A trainable that takes memory for each row of a batch: with a large one more than its process may have.

The limit is real: without a GPU the system's (RLIMIT_DATA), on one PyTorch's for a process.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

METRIC, MODE = "val_loss", "min"
LIMIT_MB, MB = 400, 2**20
"""Memory that a process may take beside what it has."""
WORKSPACE_MB = 64
"""On a GPU beside that: cuBLAS takes it with the first product of matrices."""
CASES = {"fits": 1, "half": 40, "quarter": 80, "never": 2 * LIMIT_MB, "unsplit": 40, "later": 40, "norm": 40}
"""MB that a step takes for each row; `later` from its second epoch on."""


@dataclass(frozen=True, kw_only=True)
class Params:
    """Hyperparameters of the toy."""

    case: str = "fits"
    """What it takes: see CASES; norm normalizes each batch, unsplit has data that can't be split."""
    batch_size: int = 16
    """Rows of a batch."""
    lr: float = 0.05
    """Step size of SGD."""


class Hungry(pl.LightningModule):
    """A small regression."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.params = params
        self.net = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8) if params.case == "norm" else nn.Tanh(), nn.Linear(8, 1)
        )

    def setup(self, stage: str) -> None:
        if torch.cuda.is_available():
            whole, held = torch.cuda.get_device_properties(0).total_memory, torch.cuda.memory_reserved()
            torch.cuda.set_per_process_memory_fraction((held + (LIMIT_MB + WORKSPACE_MB) * MB) / whole)
        _take(2 * LIMIT_MB if self.params.case == "model" else 0, self.device)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        row_mb = CASES.get(self.params.case, 0)
        if self.current_epoch or self.params.case != "later":
            _take(row_mb * len(batch[0]), self.device)
        _note(f"{self.params.case} {self.current_epoch + 1} {len(batch[0])}")
        return nn.functional.mse_loss(self.net(batch[0])[:, 0], batch[1])

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        self.log("val_loss", nn.functional.mse_loss(self.net(batch[0])[:, 0], batch[1]))

    def test_step(self, batch: list[torch.Tensor], index: int) -> None:
        _take(CASES.get(self.params.case, 0) * len(batch[0]), self.device)
        self.log("test_loss", nn.functional.mse_loss(self.net(batch[0])[:, 0], batch[1]))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=self.params.lr)


class Rows(pl.LightningDataModule):
    """54 rows: the last batch of 16 has 6."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        inputs = torch.rand(54, 4, generator=draw)
        self._rows = TensorDataset(inputs, inputs.sum(1) ** 2)
        self._size = params.batch_size
        if params.case != "unsplit":
            self.batch_size = params.batch_size

    def _loader(self, shuffle: bool) -> DataLoader[Any]:
        return DataLoader(self._rows, getattr(self, "batch_size", self._size), shuffle=shuffle)

    def train_dataloader(self) -> DataLoader[Any]:
        return self._loader(shuffle=True)

    def val_dataloader(self) -> DataLoader[Any]:
        return self._loader(shuffle=False)

    test_dataloader = val_dataloader


def build_model(params: Params) -> Hungry:
    return Hungry(params)


def build_data(params: Params) -> Rows:
    return Rows(params)


def _take(size_mb: float, device: torch.device) -> None:
    """Take memory and give it back, within the limit."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if device.type == "cpu":
        taken = int(Path("/proc/self/status").read_text().split("VmData:")[1].split()[0]) * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (taken + LIMIT_MB * MB, before[1]))
    try:
        torch.empty(int(size_mb * MB), dtype=torch.uint8, device=device)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _note(line: str) -> None:
    """A line for each step, for the test."""
    with (Path(os.environ["TOY_ATTEMPTS"]) / "steps").open("a") as file:
        file.write(f"{line}\n")
