"""How long an epoch takes, by the first steps of a run that is cut short."""

from __future__ import annotations

import time
from typing import Any

import lightning.pytorch as pl
import torch

from sweeps.training.trainer import Trainer

EPOCH_S = "sweeps/epoch_s"
"""Name of the metric: seconds of a whole epoch with its validation."""


class FirstSteps(pl.Callback):
    """Times the last training batch and the last validation batch, and logs what a whole epoch takes."""

    def __init__(self) -> None:
        self._step_s = self._val_batch_s = self._began = 0.0
        self._batches: int | None = None
        self._val_batches: int | None = 0  # a model need not be validated

    @property
    def epoch_s(self) -> float | None:
        """Seconds of a whole epoch with its validation; None where the data does not say how long it is."""
        if self._batches is None or self._val_batches is None:
            return None
        return self._batches * self._step_s + self._val_batches * self._val_batch_s

    def on_train_epoch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        self._batches, self._began = self._length(trainer, "train"), _now()

    def on_train_batch_end(self, *_: Any) -> None:
        self._step_s, self._began = _now() - self._began, _now()

    def on_validation_start(self, trainer: pl.Trainer, *_: Any) -> None:
        self._val_batches, self._began = self._length(trainer, "val"), _now()

    def on_validation_batch_end(self, *_: Any) -> None:
        self._val_batch_s, self._began = _now() - self._began, _now()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.epoch_s is not None:
            pl_module.log(EPOCH_S, self.epoch_s)

    def _length(self, trainer: pl.Trainer, part: str) -> int | None:
        """Batches of all loaders of a whole epoch; None where they are not known."""
        assert isinstance(trainer, Trainer)
        loaders: Any = trainer.train_dataloader if part == "train" else trainer.val_dataloaders
        each = loaders if isinstance(loaders, list | tuple) else [loaders]
        batches = [_limited(loader, trainer.whole_epoch.get(f"limit_{part}_batches")) for loader in each]
        return None if None in batches else sum(filter(None, batches))


def _limited(loader: Any, limit: float | int | None) -> int | None:
    """Batches of a loader within a limit; None where its length is not known."""
    try:
        batches = len(loader)
    except (TypeError, NotImplementedError):  # a DataLoader has a length only where its data set has one
        return limit if isinstance(limit, int) else None
    return min(batches, limit) if isinstance(limit, int) else int(batches * (1 if limit is None else limit))


def _now() -> float:
    """The time when the GPU has done what it was asked for."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()
