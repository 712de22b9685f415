"""A toy that spoils its process after `after_s` seconds, as an error in a kernel of a GPU does: from then on
each call of CUDA fails. There is no GPU: what PyTorch asks of CUDA answers so."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

from tests.faulty import toy

METRIC, MODE = toy.METRIC, toy.MODE
REASON = "CUDA error: device-side assert triggered"


@dataclass(frozen=True, kw_only=True)
class Params(toy.Params):
    """Hyperparameters of the toy."""

    after_s: float = 0.0
    """0: never."""


class Spoiling(toy.Toy):
    """One weight."""

    def on_train_epoch_start(self) -> None:
        super().on_train_epoch_start()
        params: Any = self.params
        if params.after_s:
            time.sleep(params.after_s)
            vars(torch.cuda).update(is_initialized=lambda: True, synchronize=_fail)
            _fail()


def _fail() -> None:
    raise RuntimeError(REASON)


def build_model(params: Params) -> toy.Toy:
    return Spoiling(params)


build_data = toy.build_data
