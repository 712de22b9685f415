"""A trial that only sleeps: what it costs beside that is the sweep's own."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.trivial import METRIC, MODE, OneBatch, Trivial

__all__ = ["METRIC", "MODE", "Params", "build_data", "build_model"]


@dataclass(frozen=True, kw_only=True)
class Params:
    """A hyperparameter, which is the score, and the sleep."""

    x: float = 0.0
    epoch_s: float = 1.0
    """Seconds an epoch sleeps."""


class Sleeper(Trivial):
    """Sleeps in each epoch."""

    def __init__(self, params: Params) -> None:
        super().__init__(params.x)
        self.epoch_s = params.epoch_s

    def on_train_epoch_start(self) -> None:
        time.sleep(self.epoch_s)


def build_model(params: Params) -> Sleeper:
    return Sleeper(params)


def build_data(params: Params) -> OneBatch:
    return OneBatch()
