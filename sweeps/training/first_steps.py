"""How long an epoch takes, by its first steps."""

from __future__ import annotations

import time
from typing import Any

import lightning.pytorch as pl
import torch

STEPS = 2
"""The first one also loads kernels and asks for memory."""


class FirstSteps(pl.Callback):
    """Times the last training batch and the last validation batch of a run that is cut short."""

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
        self._batches, self._began = _length(trainer.train_dataloader), _now()

    def on_train_batch_end(self, *_: Any) -> None:
        self._step_s, self._began = _now() - self._began, _now()

    def on_validation_start(self, trainer: pl.Trainer, *_: Any) -> None:
        self._val_batches, self._began = _length(trainer.val_dataloaders), _now()

    def on_validation_batch_end(self, *_: Any) -> None:
        self._val_batch_s, self._began = _now() - self._began, _now()


def _length(loaders: Any) -> int | None:
    """Batches of a loader or of several; None of one without a length."""
    try:
        return sum(map(len, loaders if isinstance(loaders, list | tuple) else [loaders]))
    except TypeError:  # a DataLoader has a length only where its data set has one
        return None


def _now() -> float:
    """The time when the GPU has done what it was asked for."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()
