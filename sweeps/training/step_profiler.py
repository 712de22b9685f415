"""Time breakdown of an epoch: waiting for data, transfer, forward, backward, optimizer, checkpoint.

A profiler of Lightning that adds up its actions. A GPU's work is queued: forward and backward show the host's
time, and GPU utilization comes from NVML.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import psutil
import torch
from lightning.pytorch.profilers import Profiler
from torch.profiler import record_function

from sweeps.training.lightning_internals import NEXT_BATCH, part_of_step
from sweeps.training.time_breakdown import PARTS

LOOK_EVERY_S = 1.0
"""Between two looks at the GPU's utilization, which is that of the last second or less."""


class StepTimes(Profiler):
    """Adds up the seconds of each part of a step, by a clock."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__()
        self.clock = clock
        self.are_labelled = False
        """Whether to name the parts in a trace of torch.profiler."""
        self.before_batch: Callable[[], None] | None = None
        """Called before a training batch is fetched."""
        self._actions: dict[str, contextlib.AbstractContextManager[object]] = {}
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def profile(self, action_name: str) -> contextlib.AbstractContextManager[object]:  # type: ignore[override]
        """The context of an action; Lightning's own takes 4 us, and a step may have 30 of them. Lightning
        annotates a generator, though it uses the context alone."""
        if (action := self._actions.get(action_name)) is None:
            part = part_of_step(action_name)
            action = contextlib.nullcontext() if part is None else _Part(self, part)
            self._actions[action_name] = action
        return action

    def start(self, action_name: str) -> None:
        if action_name == NEXT_BATCH and self.before_batch is not None:
            self.before_batch()
        self.profile(action_name).__enter__()

    def stop(self, action_name: str) -> None:
        self.profile(action_name).__exit__(None, None, None)

    def take(self) -> dict[str, float]:
        """Seconds of each part since the last call."""
        seconds, self.seconds = self.seconds, defaultdict(float)
        # Forward and backward run inside the optimizer's step.
        step = seconds.pop("step", 0.0)
        seconds["optimizer"] = max(0.0, step - seconds["forward"] - seconds["backward"])
        return {part: seconds[part] for part in PARTS}


class _Part:
    """A part of a step, from its begin to its end."""

    def __init__(self, times: StepTimes, name: str) -> None:
        self._times, self._name, self._began = times, name, 0.0
        self._label: Any = None

    def __enter__(self) -> None:
        if self._times.are_labelled:
            self._label = record_function(self._name)
            self._label.__enter__()
        self._began = self._times.clock()

    def __exit__(self, *_: object) -> None:
        self._times.seconds[self._name] += self._times.clock() - self._began
        if self._label is not None:
            self._label.__exit__(None, None, None)
            self._label = None


class Meter:
    """Measures the time and the costs of each epoch, with so many PyTorch threads."""

    def __init__(self, threads: int) -> None:
        self.step_times = StepTimes()
        self._threads, self._process = threads, psutil.Process()
        self._has_gpu, self._looks_at = torch.cuda.is_available(), 0.0
        self._gpu_util_pcts: list[float] = []
        self._began = self._cpu_s = self._seconds_before = 0.0
        self.further: dict[str, float] = {}
        """Costs that others measure."""

    def begin(self, seconds_before: float = 0.0) -> None:
        """Begin an epoch, or continue one that has taken some seconds before."""
        self._seconds_before = seconds_before
        self._began, self._cpu_s = time.perf_counter(), time.process_time()
        self._gpu_util_pcts, self._looks_at = [], self._began + LOOK_EVERY_S
        if self._has_gpu:
            torch.cuda.reset_peak_memory_stats()

    def look(self) -> None:
        """Look at the GPU's utilization from time to time; call it after each batch."""
        if self._has_gpu and time.perf_counter() >= self._looks_at:
            self._looks_at = time.perf_counter() + LOOK_EVERY_S
            self._note_utilization()

    def end(self) -> tuple[float, dict[str, float]]:
        """The epoch's seconds, and some of `COSTS` with the further ones."""
        seconds = time.perf_counter() - self._began
        parts = self.step_times.take()
        costs = {f"{part}_pct": 100 * spent / seconds for part, spent in parts.items()}
        costs["cpu_busy_pct"] = 100 * (time.process_time() - self._cpu_s) / (seconds * self._threads)
        memory = self._process.memory_info()
        costs["memory_gb"] = (memory.rss - getattr(memory, "shared", 0)) / 1e9  # without mapped files
        if self._has_gpu:
            costs["gpu_memory_gb"] = torch.cuda.max_memory_allocated() / 1e9
        if self._has_gpu and not self._gpu_util_pcts:  # a short epoch
            self._note_utilization()
        if self._gpu_util_pcts:
            costs["gpu_util_pct"] = statistics.mean(self._gpu_util_pcts)
        costs = {name: round(value, 3) for name, value in costs.items()} | self.further
        return self._seconds_before + seconds, costs

    def _note_utilization(self) -> None:
        with contextlib.suppress(Exception):  # no NVML: a container without it, an old driver
            self._gpu_util_pcts.append(torch.cuda.utilization())
