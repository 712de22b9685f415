"""A toy that takes memory of a GPU that is not there, and runs out of it where its share is too small."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import ray
import torch

from tests.faulty import toy

METRIC, MODE = toy.METRIC, toy.MODE
CARD_GB = 8.0


@dataclass(frozen=True, kw_only=True)
class Params(toy.Params):
    """Hyperparameters of the toy, and which one takes more."""

    large_slope: float = 0.0
    """The toy of this slope takes 6 GB, any other 1 GB."""


class Large(toy.Toy):
    """Takes its memory in its first epoch, and notes its share of the card in each."""

    def on_train_epoch_start(self) -> None:
        super().on_train_epoch_start()
        share = ray.get_runtime_context().get_assigned_resources().get("GPU", 0.0)
        toy._note("shares", f"{self.params.slope} {share:.2f}")
        is_large = self.params.slope == self.params.large_slope  # type: ignore[attr-defined]
        takes_gb = 6.0 if is_large else 1.0
        if takes_gb > share * CARD_GB:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {takes_gb} GiB")
        os.environ["TAKES_GB"] = str(takes_gb)


def build_model(params: Params) -> Large:
    return Large(params)


def build_data(params: Params) -> Any:
    return toy.build_data(params)
