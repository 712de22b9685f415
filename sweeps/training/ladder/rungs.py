"""The rungs of the speed ladder: each is one change that may make training faster; and the speed in a setup.

Only training steps are timed, from the arrival of a batch to that of the next: no validation, and not the
first steps, in which memory is allocated and code compiled.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import lightning.pytorch as pl
import psutil
import torch
from lightning.pytorch.utilities.data import extract_batch_size

from sweeps.common.errors import raised_in
from sweeps.common.imports import missing
from sweeps.common.objective import Objective
from sweeps.common.param_types import build_params
from sweeps.common.yaml_values import ParamValue
from sweeps.kinds import registry
from sweeps.kinds.trainable import OtherData, as_lightning
from sweeps.training.config import FitConfig, Strategy
from sweeps.training.data import preparation
from sweeps.training.distributed import launch
from sweeps.training.runs.fit_loop import Fit
from sweeps.training.step_profiler import Meter

AGAIN = "as given, again"
"""The first rung once more, at the end: whether the PC is as fast as it was."""
NO_BATCH_SIZE = "the data module has no attribute batch_size"
PLAIN = FitConfig(precision="32", strategy="single")
TIMED_SHARE = 0.9
"""Share of the given time after which the measurement may end."""
TIMEOUT_S = 3600
"""Enough for some steps on the slowest raw data; a worker that waits for another one may wait for ever."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How a rung trains."""

    fit: FitConfig = PLAIN
    is_raw: bool = False
    """Whether the rows are raw data, read by `build_raw_data`."""
    loader_workers: int | None = None
    """Processes that read ahead; None: as Params has it."""
    batch_rows: int | None = None
    """Rows of a batch; None: as Params has it."""

    def with_fit(self, **settings: Any) -> Setup:
        """The same with other settings of the fit."""
        return replace(self, fit=replace(self.fit, **settings))


@dataclass(frozen=True)
class Capabilities:
    """What the PC and the trainable offer."""

    gpus: int
    cores: int
    batch_rows: int | None
    """Rows of a batch as Params has it; None: the data module does not say."""
    has_raw: bool
    has_prepared: bool
    has_loader_hyperparameter: bool


Change = Callable[[Setup, Capabilities], Setup | str]
"""The fastest setup so far to the setup of a rung, or to the reason for which the rung is skipped."""


def start(has: Capabilities) -> Setup:
    """The first rung: raw data where it can be read, no process that reads ahead, fp32."""
    setup = Setup(is_raw=has.has_raw, loader_workers=0 if has.has_raw else None)
    return setup.with_fit(threads=has.cores)


def changes(before: Setup, now: Setup) -> str:
    """The settings that differ, as text."""
    texts = {"is_raw": "prepared rows", "compile": "torch.compile"}
    old, new = ({**vars(setup.fit), **vars(setup)} for setup in (before, now))
    changed = [name for name in new if name != "fit" and new[name] != old[name]]
    words = [texts.get(name, f"{name.replace('_', ' ')} {new[name]}") for name in changed]
    return ", ".join(words) or ("raw data" if now.is_raw else "data of build_data")


def _more_workers(setup: Setup, has: Capabilities) -> Setup | str:
    if not setup.is_raw and not has.has_loader_hyperparameter:
        return "the trainable defines neither build_raw_data nor the hyperparameter loader_workers"
    return replace(setup, loader_workers=has.cores)


def _prepared(setup: Setup, has: Capabilities) -> Setup | str:
    if not has.has_prepared:
        return "the trainable defines no prepare"
    if not has.has_raw:
        return "all rungs read prepared data, since the trainable defines no build_raw_data"
    workers = setup.loader_workers if has.has_loader_hyperparameter else None
    return replace(setup, is_raw=False, loader_workers=workers)


def _larger_batch(setup: Setup, has: Capabilities) -> Setup | str:
    if has.batch_rows is None:
        return NO_BATCH_SIZE
    return replace(setup, batch_rows=4 * has.batch_rows)


def _on_all_devices(strategy: Strategy) -> Change:
    def change(setup: Setup, has: Capabilities) -> Setup | str:
        devices = has.gpus or has.cores
        if devices == 1:
            return f"this PC has one {'GPU' if has.gpus else 'core'}"
        if has.batch_rows is None:
            return NO_BATCH_SIZE
        if strategy.startswith("deepspeed") and (fault := missing("deepspeed", "deepspeed")):
            return fault
        return setup.with_fit(strategy=strategy, devices=devices, threads=max(1, has.cores // devices))

    return change


RUNGS: Mapping[str, Change] = {
    "as given": lambda setup, has: setup,
    "more loader workers": _more_workers,
    "prepared Parquet": _prepared,
    "larger batch": _larger_batch,
    "lower precision": lambda setup, has: setup.with_fit(precision="16-mixed" if has.gpus else "bf16-mixed"),
    "DDP on all devices": _on_all_devices("ddp"),
    "ZeRO 2 on all devices": _on_all_devices("deepspeed_stage_2"),
    "compile": lambda setup, has: setup.with_fit(compile=True),
    AGAIN: lambda setup, has: start(has),
}


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The measured speed of a setup, of all its workers together."""

    samples_s: float
    """Rows trained in a second."""
    epoch_rows: int | None
    """None where the data does not say how long it is."""
    batch_rows: int
    data_wait_pct: float
    """Share of the steps' time in which they waited for a batch."""
    gpu_util_pct: float | None
    """Utilization by NVML; None on a CPU, or without NVML."""
    cores_busy_pct: float
    """Share of all the PC's cores."""


def busy_cores() -> float:
    """Number of cores that other programs keep busy, measured for a second."""
    return psutil.cpu_percent(interval=1.0) / 100 * (psutil.cpu_count() or 1)


def measure(
    trainable: str, params: Mapping[str, ParamValue], setup: Setup, seconds: float
) -> tuple[Speed | None, str]:
    """Train for so many seconds in a process of its own: the speed, or None and the reason."""
    speed, failure = launch.call(TIMEOUT_S, train, trainable, dict(params), setup, seconds)
    return speed, in_a_line(failure) if failure else ""


def in_a_line(failure: str) -> str:
    """The line of a traceback that names the error, or the last line."""
    lines = failure.splitlines()
    return raised_in(lines) or lines[-1]


class Timed(pl.Callback):
    """Times the steps of a training, and ends the training after that time.

    Args:
        is_compiled: whether torch.compile runs in the first steps.
    """

    def __init__(self, seconds: float, *, is_compiled: bool = False) -> None:
        self._seconds, self._is_compiled = seconds, is_compiled
        self._meter = Meter(threads=1)
        self._rows: list[int] = []
        """Of each step of the warm-up, then of the measurement."""
        self._most_rows = 0
        """Of all steps: that of an epoch's end may be short."""
        self._is_warm, self._looks_at = False, 3
        self._ended_at = self._time_s = self._wait_s = 0.0
        self.speed: Speed | None = None
        """Of all workers, each of which trains as this one; None before the time is over."""

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Shorten the validation, which is not measured."""
        trainer.limit_val_batches = 1

    def on_train_start(self, trainer: pl.Trainer, *_: Any) -> None:
        """Warm up for a whole epoch, or 50 steps of a long one: its last batch has fewer rows, for which code
        is compiled again."""
        if self._is_compiled:
            self._looks_at = max(self._looks_at, int(min(trainer.num_training_batches + 1, 50)))

    def on_train_epoch_start(self, *_: Any) -> None:
        """Leave out the time between epochs, but not the start of the loader."""
        self._ended_at = time.perf_counter()

    def on_train_batch_start(self, *_: Any) -> None:
        """Add the wait for the batch."""
        self._wait_s += time.perf_counter() - self._ended_at

    def on_train_batch_end(self, trainer: pl.Trainer, _: Any, __: Any, batch: Any, *___: Any) -> None:
        """Count a step; begin the measurement after the warm-up, and end it when its time is over."""
        if self.speed is not None:
            return
        self._meter.look()
        self._rows.append(extract_batch_size(batch))
        self._most_rows = max(self._most_rows, self._rows[-1])
        is_look = len(self._rows) == self._looks_at
        if is_look and torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        self._time_s += now - self._ended_at
        self._ended_at = now
        if is_look and self._is_warm:
            self._end_if_over(trainer)
        elif is_look:
            self._begin()

    def _begin(self) -> None:
        self._is_warm, self._looks_at = True, 1
        self._rows, self._time_s, self._wait_s = [], 0.0, 0.0
        psutil.cpu_percent()
        self._meter.begin()
        self._ended_at = time.perf_counter()

    def _end_if_over(self, trainer: pl.Trainer) -> None:
        """By the first worker's clock, so that all workers end after the same step."""
        to_go = steps_to_go(len(self._rows), self._time_s, self._seconds)
        if to_go := int(trainer.strategy.broadcast(to_go)):
            self._looks_at += to_go
            self._ended_at = time.perf_counter()
            return
        batch_rows, batches = self._most_rows * trainer.world_size, trainer.num_training_batches
        self.speed = Speed(
            samples_s=sum(self._rows) * trainer.world_size / self._time_s,
            epoch_rows=None if batches == math.inf else batch_rows * int(batches),
            batch_rows=batch_rows,
            data_wait_pct=100 * self._wait_s / self._time_s,
            gpu_util_pct=self._meter.end()[1].get("gpu_util_pct"),
            cores_busy_pct=psutil.cpu_percent(),
        )
        trainer.should_stop = True


def steps_to_go(steps: int, time_s: float, seconds: float) -> int:
    """Steps until the next look at the clock, for which the GPU must have ended its work; 0 where the time is
    over. At most as many again: the first steps may be faster, on batches that the loader had ready."""
    if time_s >= TIMED_SHARE * seconds:
        return 0
    return min(steps, max(1, round((seconds - time_s) * steps / max(time_s, 1e-9))))


def train(name: str, params: dict[str, ParamValue], setup: Setup, seconds: float) -> Speed:
    """Train a trainable of this name in this process until its speed is measured."""
    trainable = as_lightning(registry.find(name))
    prepared = None if setup.is_raw else preparation.prepare_for_run(trainable, params)
    if setup.loader_workers is not None and not setup.is_raw:
        params = {**params, "loader_workers": setup.loader_workers}
    timed = Timed(seconds, is_compiled=setup.fit.compile)
    own = trainable.objective or Objective("", "max")  # no epoch ends
    config = replace(setup.fit, max_epochs=10**6, metric=own.metric, mode=own.mode)
    built = build_params(trainable.params_class, params)
    data = OtherData(trainable, setup.batch_rows, (setup.loader_workers or 0) if setup.is_raw else None)
    training = Fit(data, built, config, prepared=prepared)
    training.callbacks.append(timed)
    while training.advance() is not None:
        pass
    assert timed.speed is not None, "the training has ended by itself"
    return timed.speed
