"""Metrics that are summed on the device and logged once an epoch."""

from __future__ import annotations

import lightning.pytorch as pl
import torch


class MeanLogger(pl.LightningModule):
    """Logs the means of what its steps hand to `log_mean`, under names that begin with train_, val_, test_.

    `self.log` in a step costs half a millisecond; a sum on the device costs next to nothing, and no step
    waits for it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._means: dict[str, _Mean] = {}

    def log_mean(self, name: str, value: torch.Tensor, rows: int) -> None:
        """Take in the mean of a batch of so many rows."""
        self._means.setdefault(name, _Mean()).add(value, rows)

    def on_train_epoch_end(self) -> None:
        self._log_means("train_")

    def on_validation_epoch_end(self) -> None:
        self._log_means("val_")

    def on_test_epoch_end(self) -> None:
        self._log_means("test_")

    def _log_means(self, part: str) -> None:
        for name in [name for name in self._means if name.startswith(part)]:
            self.log(name, self._means.pop(name).value)


class _Mean:
    """Of a value over the rows of an epoch."""

    def __init__(self) -> None:
        self._sum: torch.Tensor | float = 0.0
        self._rows = 0

    def add(self, value: torch.Tensor, rows: int) -> None:
        """Take in the mean of a batch."""
        # In fp32: DeepSpeed's losses are fp16 or bf16, in which a sum over an epoch is wrong, or infinite.
        self._sum = self._sum + value.detach().float() * rows
        self._rows += rows

    @property
    def value(self) -> torch.Tensor | float:
        """The mean of all that was added."""
        return self._sum / self._rows
