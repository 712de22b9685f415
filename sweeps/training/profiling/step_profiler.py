"""Time breakdown of an epoch: waiting for data, transfer, forward, backward, optimizer, checkpoint.

A profiler of Lightning that adds up its actions. A GPU's work is queued: forward and backward show the host's
time, and GPU utilization comes from NVML.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import psutil
import pynvml
import torch
from lightning.pytorch.profilers import Profiler
from torch.profiler import record_function

from sweeps.training.lightning_internals import NEXT_BATCH, part_of_step
from sweeps.training.profiling.time_breakdown import PARTS

LOOK_EVERY_S = 4.0
"""Between two looks at NVML's samples; NVML keeps about 14 s of them."""


class StepTimes(Profiler):
    """Adds up the seconds of each part of a step."""

    def __init__(self) -> None:
        super().__init__()
        self.are_labelled = False
        """Whether to name the parts in a trace of torch.profiler."""
        self.before_batch: Callable[[], None] | None = None
        """Called before a training batch is fetched."""
        self._labels: dict[str, Any] = {}
        self._part_of: dict[str, str | None] = {}
        self._began: dict[str, float] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def start(self, action_name: str) -> None:
        if action_name == NEXT_BATCH and self.before_batch is not None:
            self.before_batch()
        if action_name not in self._part_of:
            self._part_of[action_name] = part_of_step(action_name)
        if (part := self._part_of[action_name]) is not None:
            if self.are_labelled:
                self._labels[part] = label = record_function(part)
                label.__enter__()  # type: ignore[no-untyped-call]
            self._began[part] = time.perf_counter()

    def stop(self, action_name: str) -> None:
        if (part := self._part_of[action_name]) is not None:
            self._seconds[part] += time.perf_counter() - self._began[part]
            if self._labels and (label := self._labels.pop(part, None)) is not None:
                label.__exit__(None, None, None)

    def take(self) -> dict[str, float]:
        """Seconds of each part since the last call."""
        seconds, self._seconds = self._seconds, defaultdict(float)
        # Forward and backward run inside the optimizer's step.
        step = seconds.pop("step", 0.0)
        seconds["optimizer"] = max(0.0, step - seconds["forward"] - seconds["backward"])
        return {part: seconds[part] for part in PARTS}


class Meter:
    """Measures the time and the costs of each epoch, with so many PyTorch threads."""

    def __init__(self, threads: int) -> None:
        self.step_times = StepTimes()
        self._threads, self._process = threads, psutil.Process()
        self._has_gpu, self._util = torch.cuda.is_available(), None
        with contextlib.suppress(Exception):  # no NVML: a container without it, an old driver
            if self._has_gpu:
                pynvml.nvmlInit()
                uuid = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
                self._util = GpuUtil(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid))
        self._began, self._cpu_s = 0.0, 0.0

    def begin(self) -> None:
        """Begin an epoch."""
        self._began, self._cpu_s = time.perf_counter(), time.process_time()
        if self._util is not None:
            self._util.begin()
        if self._has_gpu:
            torch.cuda.reset_peak_memory_stats()

    def look(self) -> None:
        """Fetch NVML's samples before they expire; call it after each batch."""
        if self._util is not None:
            self._util.look()

    def end(self) -> tuple[float, dict[str, float]]:
        """The epoch's seconds, and some of `COSTS`."""
        seconds = time.perf_counter() - self._began
        parts = self.step_times.take()
        costs = {f"{part}_pct": 100 * spent / seconds for part, spent in parts.items()}
        costs["cpu_busy_pct"] = 100 * (time.process_time() - self._cpu_s) / (seconds * self._threads)
        memory = self._process.memory_info()
        costs["memory_gb"] = (memory.rss - getattr(memory, "shared", 0)) / 1e9  # without mapped files
        if self._has_gpu:
            costs["gpu_memory_gb"] = torch.cuda.max_memory_allocated() / 1e9
        if self._util is not None and (busy_pct := self._util.mean_pct()) is not None:
            costs["gpu_util_pct"] = busy_pct
        return seconds, {name: round(value, 3) for name, value in costs.items()}


class GpuUtil:
    """Mean utilization of a GPU, by NVML's samples, which are fetched before they expire.

    Args:
        nvml: the module pynvml.
        gpu: NVML's handle.
        clock: seconds since 1970, as in the samples.
    """

    def __init__(self, nvml: Any, gpu: Any, clock: Callable[[], float] = time.time) -> None:
        self._nvml, self._gpu, self._clock = nvml, gpu, clock
        self.begin()

    def begin(self) -> None:
        """Begin anew."""
        self._looks_at_s = self._clock() + LOOK_EVERY_S
        self._seen_us = int(self._clock() * 1e6)
        self._sum_pct, self._samples = 0.0, 0

    def look(self) -> None:
        """Fetch new samples every `LOOK_EVERY_S`."""
        if (now_s := self._clock()) >= self._looks_at_s:
            self._looks_at_s = now_s + LOOK_EVERY_S
            self._fetch()

    def mean_pct(self) -> float | None:
        """Percent since `begin`; None where the driver reports no utilization."""
        self._fetch()
        if self._samples:
            return self._sum_pct / self._samples
        with contextlib.suppress(self._nvml.NVMLError):
            return float(self._nvml.nvmlDeviceGetUtilizationRates(self._gpu).gpu)
        return None

    def _fetch(self) -> None:
        kind = self._nvml.NVML_GPU_UTILIZATION_SAMPLES
        with contextlib.suppress(self._nvml.NVMLError):  # not supported by every card, or no new sample
            _, samples = self._nvml.nvmlDeviceGetSamples(self._gpu, kind, self._seen_us)
            new = [sample for sample in samples if sample.timeStamp > self._seen_us]
            self._sum_pct += sum(sample.sampleValue.uiVal for sample in new)
            self._samples += len(new)
            self._seen_us = max((sample.timeStamp for sample in new), default=self._seen_us)
