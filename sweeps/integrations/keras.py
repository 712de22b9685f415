"""Keras 3: each epoch of `fit` is a report.

model = load_model(checkpoint_of(trial)) if trial.checkpoint else build(params)
model.fit(..., initial_epoch=trial.epochs_done, epochs=trial.max_epochs, callbacks=[ReportEpochs(trial)])

https://keras.io/api/callbacks/base_callback/
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras

from sweeps.kinds.function import Trial

FILE = "model.keras"


def checkpoint_of(trial: Trial) -> Path | None:
    """The saved model to go on from, with its optimizer; None at the start."""
    return None if trial.checkpoint is None else trial.checkpoint / FILE


class ReportEpochs(keras.callbacks.Callback):
    """Seeds and reports each epoch, and saves the model with its optimizer where a checkpoint is due.

    Args:
        trial: to report to.
    """

    def __init__(self, trial: Trial) -> None:
        super().__init__()
        self._trial, self._epochs = trial, trial.epochs

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        next(self._epochs, None)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._trial.report(logs or {}, save=lambda folder: self.model.save(folder / FILE))
