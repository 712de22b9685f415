"""Keeps a trial's process listening to SIGTERM while it trains."""

from __future__ import annotations

import lightning.pytorch as pl

from sweeps.trial import stop_signal


class Listening(pl.Callback):
    """Listens again once a training has begun: Lightning takes SIGTERM then, and would raise at the end of
    the step, before anything is saved. It gives the handlers back at the end."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        stop_signal.listen()
