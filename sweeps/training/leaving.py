"""How a single run is told to leave its training at the next step."""

from __future__ import annotations

import contextlib
from typing import Any

import lightning.pytorch as pl

from sweeps.common import stop_signals
from sweeps.training.distributed import launch


class Leaving(pl.Callback):
    """Notes Ctrl-C, SIGTERM and a closed terminal while the run trains; a second Ctrl-C ends it at once.

    Each worker has one; the first worker's counts. It listens from the first step on, since Lightning takes
    SIGTERM when a training begins, and would raise at the end of the step.
    """

    def __init__(self) -> None:
        self._is_asked = False
        self._listens = contextlib.ExitStack()

    def is_asked(self) -> bool:
        """Whether to leave the run."""
        return self._is_asked

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._listens.enter_context(stop_signals.handled(self._note))

    def on_train_end(self, *_: Any) -> None:
        if not self._is_asked:  # else until Lightning has ended: the signal may be sent again and again
            self._listens.close()

    def on_exception(self, *_: Any) -> None:
        self.on_train_end()

    def _note(self) -> None:
        self._is_asked = True
        with contextlib.suppress(OSError, RuntimeError):  # a closed pipe; the signal came within a print
            launch.say(
                "\nStopping. The run is saved at its next step with prepared data, else at the end of its "
                "epoch. Press Ctrl-C again to stop at once."
            )
