"""A transformer of any size on random tokens, trained by Adam, and the time of its steps."""

from __future__ import annotations

import time
from typing import Any

import lightning.pytorch as pl
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

TOKENS, LENGTH, HEAD = 1_000, 256, 64
"""Different tokens, tokens of a row, width of a head."""


class EnoughSteps(Exception):
    """Ends a training without the end of its epoch, where the weights would be copied."""


class Transformer(pl.LightningModule):
    """Pre-norm blocks; about 12 width^2 depth parameters."""

    def __init__(self, width: int, depth: int, device: str) -> None:
        super().__init__()
        with torch.device(device):  # a billion weights are drawn in a minute on a CPU
            self.embedding = nn.Embedding(TOKENS, width)
            self.blocks = nn.ModuleList(
                nn.TransformerEncoderLayer(
                    width, max(1, width // HEAD), 4 * width, dropout=0.0, activation="gelu",
                    batch_first=True, norm_first=True,
                )
                for _ in range(depth)
            )  # fmt: skip
            self.head = nn.Linear(width, TOKENS)

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        """Tokens [batch, LENGTH + 1]: each is to be told from the one before it."""
        hidden = self.embedding(batch[:, :-1])
        for block in self.blocks:
            hidden = block(hidden)
        logits = self.head(hidden).float()
        return functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=1e-4, fused=torch.cuda.is_available())


class Tokens(pl.LightningDataModule):
    """The same random rows in each batch; as many as are wanted."""

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self) -> DataLoader[torch.Tensor]:
        rows = torch.randint(TOKENS, (self.batch_size, LENGTH + 1))
        batches: Any = [rows] * 10_000
        return DataLoader(batches, batch_size=None)


class Steps(pl.Callback):
    """Seconds of each step behind those that warm up; ends the training.

    Args:
        warm_up: steps that do not count.
        counted: steps that do.
    """

    def __init__(self, warm_up: int, counted: int) -> None:
        self.seconds: list[float] = []
        self.parameters = 0
        self._warm_up, self._counted, self._began = warm_up, counted, 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.parameters = sum(weight.numel() for weight in pl_module.parameters())

    def on_train_batch_start(self, *_: Any) -> None:
        self._began = _now()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        seconds = _now() - self._began
        if batch_idx >= self._warm_up:
            self.seconds.append(seconds)
        if len(self.seconds) == self._counted:
            raise EnoughSteps


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()
