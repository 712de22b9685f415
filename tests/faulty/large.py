"""A toy that takes memory of a GPU that is not there, and runs out of it where its share is too small, or
where the programs in the file $GPU_PROCESSES (see `tests/faulty/nvml/pynvml.py`) have too much of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
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
        if takes_gb > min(share * CARD_GB, CARD_GB - _of_others_gb()):
            toy._note("ran_out", str(self.params.slope))
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {takes_gb} GiB")
        os.environ["TAKES_GB"] = str(takes_gb)


def _of_others_gb() -> float:
    file = Path(os.environ.get("GPU_PROCESSES", ""))
    rows = [line.split(", ") for line in file.read_text().splitlines()] if file.is_file() else []
    own = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    return sum(
        int(mib) * 2**20 / 1e9 for place, _, pid, mib in rows if place == own and Path("/proc", pid).exists()
    )


def build_model(params: Params) -> Large:
    return Large(params)


def build_data(params: Params) -> Any:
    return toy.build_data(params)
