"""Epochs of a trainable by `Fit`: their times, memory, GPU-Util and wait for data."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import lightning.pytorch as pl
import torch

from benchmarks import _measure
from benchmarks._gpu.line import Run
from sweeps.kinds.lightning import LightningFile
from sweeps.training import torch_state
from sweeps.training.config import FitConfig
from sweeps.training.report import Report
from sweeps.training.runs.fit_loop import Fit

COSTS = ("data_wait_pct", "gpu_util_pct", "gpu_memory_gb", "cpu_busy_pct")


class TrainingTime(pl.Callback):
    """Seconds of the training steps of each epoch, without validation, when the GPU has done them."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._began = 0.0

    def on_train_epoch_start(self, *_: Any) -> None:
        self._began = _now()

    def on_validation_start(self, *_: Any) -> None:
        self.seconds.append(_now() - self._began)


def epochs(
    module: Any, params: Any, counted: int, rows: int, has_time: Callable[[], bool], **settings: Any
) -> Run:
    """Train one epoch to warm up, and so many that count.

    Args:
        module: defines the trainable.
        params: an instance of its Params.
        counted: epochs that count; fewer, one at least, where time is up.
        rows: that an epoch trains on.
        has_time: whether there is time for another epoch.
        **settings: of FitConfig.

    Returns:
        epochs, first_epoch_s, epoch_s (training and validation), train_s, rows_per_s (of training alone) and
        COSTS: medians over the epochs that count; of memory the largest.
    """
    config = FitConfig(max_epochs=1 + counted, metric=module.METRIC, mode=module.MODE, **settings)
    seen: list[Report] = []

    timed = TrainingTime()
    torch_state.free_memory()
    fit = Fit(LightningFile(module.__name__, module), params, config)
    try:
        fit.callbacks.append(timed)
        while (len(seen) < 2 or has_time()) and isinstance(epoch := fit.advance(), Report):
            seen.append(epoch)
        fit.close()
    finally:
        fit.release()
        del fit
        torch_state.free_memory()
    train_s = _measure.median(timed.seconds[1:])
    return {
        "epochs": len(seen) - 1,
        "first_epoch_s": seen[0].seconds,
        "epoch_s": _measure.median([epoch.seconds for epoch in seen[1:]]),
        "train_s": train_s,
        "rows_per_s": rows / train_s if train_s else None,
        **{name: _over(seen[1:], name) for name in COSTS},
    }


def _over(seen: Sequence[Report], name: str) -> float | None:
    values = [epoch.costs[name] for epoch in seen if name in epoch.costs]
    return max(values, default=None) if name == "gpu_memory_gb" else _measure.median(values)


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()
