"""The speed of training steps, measured by a callback of Lightning's Trainer."""

from __future__ import annotations

import time
from typing import Any

import lightning.pytorch as pl
import psutil
import torch
from lightning.pytorch.utilities.data import extract_batch_size

from sweeps.training.profiling.step_profiler import Meter

ENOUGH = 0.9
"""Share of the time after which a block may end."""
COMPILED_WARM_UP_STEPS = 50
"""The most steps of warm-up that wait for the last batch of an epoch."""


def steps_to_go(steps: int, time_s: float, block_s: float) -> int:
    """Steps that a block still needs, estimated by those that it has; 0 ends it.

    It has at most as many again: the first steps may be faster, on batches that the loader had ready.
    """
    if time_s >= ENOUGH * block_s:
        return 0
    return min(steps, max(1, round((block_s - time_s) * steps / max(time_s, 1e-9))))


class Timed(pl.Callback):
    """Times the steps of a training, and ends the training after that time.

    Args:
        seconds: time to measure.
        warm_up_steps: first steps, which are not measured.
        blocks: parts of the time, each with its own rate.
        is_compiled: whether torch.compile runs in the first steps.
    """

    def __init__(self, seconds: float, warm_up_steps: int, blocks: int, *, is_compiled: bool = False) -> None:
        self._is_compiled = is_compiled
        self._block_s, self._blocks = seconds / blocks, blocks
        self._meter = Meter(threads=1)
        self._steps, self._block_from, self._looks_at = 0, 0, warm_up_steps
        self._loader: Any = None
        self._ended_at = 0.0
        self._rows, self._time_s, self._wait_s = 0, 0.0, 0.0
        self._waited_s, self._trained_s = 0.0, 0.0
        self.rates: list[float] = []
        """Rows that this worker trains in a second, for each block."""
        self.epoch_rows, self.batch_rows = 0, 0
        self.gpu_util_pct: float | None = None
        self.cores_busy_pct = 0.0

    @property
    def data_wait_pct(self) -> float:
        """Share of the steps' time in which they waited for a batch."""
        return 100 * self._waited_s / self._trained_s

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Shorten the validation, which is not measured."""
        trainer.limit_val_batches = 1

    def on_train_start(self, trainer: pl.Trainer, *_: Any) -> None:
        """Warm up for a whole epoch: its last batch has fewer rows, for which code is compiled again."""
        if self._is_compiled:
            whole = min(int(trainer.num_training_batches) + 1, COMPILED_WARM_UP_STEPS)
            self._looks_at = max(self._looks_at, whole)

    def on_train_epoch_start(self, *_: Any) -> None:
        """Leave out the time between epochs, but not the start of the loader."""
        self._ended_at = time.perf_counter()

    def on_train_batch_start(self, *_: Any) -> None:
        """Add the wait for the batch."""
        self._wait_s += time.perf_counter() - self._ended_at

    def on_train_batch_end(self, trainer: pl.Trainer, _: Any, __: Any, batch: Any, *___: Any) -> None:
        """Count a step, and end a block that is complete."""
        if len(self.rates) == self._blocks:
            return
        self._meter.look()
        self._loader, rows = trainer.train_dataloader, extract_batch_size(batch)
        self._steps += 1
        looks = self._steps == self._looks_at
        if looks and torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        self._rows += rows
        self._time_s += now - self._ended_at
        self._ended_at = now
        if looks and not self._block_from:
            self._begin(trainer, rows)
        elif looks:
            self._end_block_if_over(trainer)

    def loader_alone(self, seconds: float) -> float:
        """Rows that the loader reads in a second while nothing else runs, after its first batch."""
        rows, began = 0, 0.0
        while not rows or time.perf_counter() - began < seconds:
            for batch in self._loader:
                if not began:
                    began = time.perf_counter()  # its processes have started
                    continue
                rows += extract_batch_size(batch)
                if time.perf_counter() - began >= seconds:
                    break
        return rows / (time.perf_counter() - began)

    def _begin(self, trainer: pl.Trainer, rows: int) -> None:
        self.batch_rows, self.epoch_rows = rows, rows * int(trainer.num_training_batches)
        psutil.cpu_percent()
        self._meter.begin()
        self._begin_block()

    def _begin_block(self) -> None:
        self._block_from, self._looks_at = self._steps, self._steps + 1
        self._rows, self._time_s, self._wait_s = 0, 0.0, 0.0
        self._ended_at = time.perf_counter()

    def _end_block_if_over(self, trainer: pl.Trainer) -> None:
        """By the first worker's clock, so that all workers end a block after the same step."""
        to_go = steps_to_go(self._steps - self._block_from, self._time_s, self._block_s)
        if to_go := int(trainer.strategy.broadcast(to_go)):
            self._looks_at = self._steps + to_go
            self._ended_at = time.perf_counter()
            return
        self.rates.append(self._rows / self._time_s)
        self._waited_s += self._wait_s
        self._trained_s += self._time_s
        if len(self.rates) < self._blocks:
            self._begin_block()
            return
        self.gpu_util_pct = self._meter.end()[1].get("gpu_util_pct")
        self.cores_busy_pct = psutil.cpu_percent()
        trainer.should_stop = True
