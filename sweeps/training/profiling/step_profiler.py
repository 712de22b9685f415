"""Where the time of an epoch goes: waiting for data, moving it, forward, backward, optimizer, checkpoint.

Lightning brackets each of these for its profilers anyway; this one adds them up, at two clock readings a
bracket. On a GPU work is queued: what is counted there is the time that Python was held, so forward and
backward show where the host waits, and how busy the GPU was comes from NVML.
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

from sweeps.training.profiling.time_breakdown import PARTS

_ENDINGS = {
    "train_dataloader_next": "data_wait",
    "batch_to_device": "transfer",
    "training_step": "forward",
    "backward": "backward",
    "optimizer_step": "step",
    "save_checkpoint": "checkpoint",
}
_OWN = ("[Strategy]", "[_TrainingEpochLoop]", "save_checkpoint")
"""Who brackets a part; a module's own hook of that name lies inside, and would count twice."""
LOOK_EVERY_S = 4.0
"""At NVML's samples, of which it keeps those of the last 14 s or so."""


class StepTimes(Profiler):
    """Adds up the seconds of each part; `take` hands them out and begins anew."""

    def __init__(self) -> None:
        super().__init__()
        self.are_labelled = False
        """Whether the parts have their names in a trace of torch.profiler."""
        self._labels: dict[str, Any] = {}
        self._part_of: dict[str, str | None] = {}
        self._began: dict[str, float] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def start(self, action_name: str) -> None:
        """An action begins."""
        if action_name not in self._part_of:
            self._part_of[action_name] = _part(action_name)
        if (part := self._part_of[action_name]) is not None:
            if self.are_labelled:
                self._labels[part] = label = record_function(part)
                label.__enter__()  # type: ignore[no-untyped-call]
            self._began[part] = time.perf_counter()

    def stop(self, action_name: str) -> None:
        """It ends."""
        if (part := self._part_of[action_name]) is not None:
            self._seconds[part] += time.perf_counter() - self._began[part]
            if self._labels and (label := self._labels.pop(part, None)) is not None:
                label.__exit__(None, None, None)

    def take(self) -> dict[str, float]:
        """Seconds of each part since the last time."""
        seconds, self._seconds = self._seconds, defaultdict(float)
        # The closure that trains runs inside the optimizer's step.
        step = seconds.pop("step", 0.0)
        seconds["optimizer"] = max(0.0, step - seconds["forward"] - seconds["backward"])
        return {part: seconds[part] for part in PARTS}


class Meter:
    """What each epoch cost, beside its seconds.

    Args:
        threads: PyTorch threads of this process.
    """

    def __init__(self, threads: int) -> None:
        self.step_times = StepTimes()
        self._threads, self._process = threads, psutil.Process()
        self._gpu = _Gpu() if torch.cuda.is_available() else None
        self._began, self._cpu_s = 0.0, 0.0

    def begin(self) -> None:
        """An epoch begins."""
        self._began, self._cpu_s = time.perf_counter(), time.process_time()
        if self._gpu is not None:
            self._gpu.begin()

    def look(self) -> None:
        """To be called behind each batch: what is only known for a while is noted."""
        if self._gpu is not None:
            self._gpu.look()

    def end(self) -> tuple[float, dict[str, float]]:
        """The epoch's seconds, and what it cost: some of `COSTS`."""
        seconds = time.perf_counter() - self._began
        parts = self.step_times.take()
        costs = {f"{part}_pct": 100 * spent / seconds for part, spent in parts.items()}
        costs["cpu_busy_pct"] = 100 * (time.process_time() - self._cpu_s) / (seconds * self._threads)
        costs["memory_gb"] = _own_bytes(self._process) / 1e9
        if self._gpu is not None:
            costs |= self._gpu.end()
        return seconds, {name: round(value, 3) for name, value in costs.items()}


class _Gpu:
    """How busy this process's GPU is, and how much of its memory PyTorch's allocator took."""

    def __init__(self) -> None:
        self._util: GpuUtil | None = None
        with contextlib.suppress(Exception):  # no NVML: a container without it, an old driver
            pynvml.nvmlInit()
            uuid = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
            self._util = GpuUtil(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid))

    def begin(self) -> None:
        """An epoch begins."""
        if self._util is not None:
            self._util.begin()
        torch.cuda.reset_peak_memory_stats()

    def look(self) -> None:
        """A batch has ended."""
        if self._util is not None:
            self._util.look()

    def end(self) -> dict[str, float]:
        """Of the epoch."""
        found = {"gpu_memory_gb": torch.cuda.max_memory_allocated() / 1e9}
        if self._util is not None and (busy_pct := self._util.mean_pct()) is not None:
            found["gpu_util_pct"] = busy_pct
        return found


class GpuUtil:
    """GPU-Util over any time, by NVML's own samples, which are fetched before they are dropped.

    Args:
        nvml: the module pynvml.
        gpu: NVML's handle of it.
        clock: seconds since 1970, as the samples are stamped.
    """

    def __init__(self, nvml: Any, gpu: Any, clock: Callable[[], float] = time.time) -> None:
        self._nvml, self._gpu, self._clock = nvml, gpu, clock
        self.begin()

    def begin(self) -> None:
        """What was before does not count."""
        self._looks_at_s = self._clock() + LOOK_EVERY_S
        self._seen_us = int(self._clock() * 1e6)
        self._sum_pct, self._samples = 0.0, 0

    def look(self) -> None:
        """Fetch what is new, if it is time to."""
        if (now_s := self._clock()) >= self._looks_at_s:
            self._looks_at_s = now_s + LOOK_EVERY_S
            self._fetch()

    def mean_pct(self) -> float | None:
        """Since `begin`; None where the card tells nothing."""
        self._fetch()
        if self._samples:
            return self._sum_pct / self._samples
        with contextlib.suppress(self._nvml.NVMLError):
            return float(self._nvml.nvmlDeviceGetUtilizationRates(self._gpu).gpu)
        return None

    def _fetch(self) -> None:
        kind = self._nvml.NVML_GPU_UTILIZATION_SAMPLES
        with contextlib.suppress(self._nvml.NVMLError):  # not of every card; or there is nothing new
            _, samples = self._nvml.nvmlDeviceGetSamples(self._gpu, kind, self._seen_us)
            new = [sample for sample in samples if sample.timeStamp > self._seen_us]
            self._sum_pct += sum(sample.sampleValue.uiVal for sample in new)
            self._samples += len(new)
            self._seen_us = max((sample.timeStamp for sample in new), default=self._seen_us)


def _part(action: str) -> str | None:
    name = action.rsplit(".", 1)[-1]
    if name == "optimizer_step":  # the module's hook is the outermost
        return "step" if action.startswith("[LightningModule]") else None
    return _ENDINGS.get(name) if action.startswith(_OWN) else None


def _own_bytes(process: psutil.Process) -> int:
    memory = process.memory_info()
    return int(memory.rss - getattr(memory, "shared", 0))  # mapped files are the system's, not this process's
