"""`--profile`: a trace of a few steps, the most expensive operations, and a timeline of batches and steps.

https://docs.pytorch.org/docs/stable/profiler.html
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile, schedule

from sweeps.common.formatting import count
from sweeps.training.step_profiler import StepTimes
from sweeps.training.time_breakdown import PARTS

TRACE_FILE = "steps.pt.trace.json.gz"
"""For https://ui.perfetto.dev, chrome://tracing or TensorBoard's profile plugin."""
SKIPPED, WARM_UP, RECORDED = 3, 2, 8
"""Steps: the first ones allocate memory and choose algorithms; recording ends early at a validation."""
MOST_EXPENSIVE = 10
"""Operations shown."""
DRAWN = 200
"""Steps of the timeline, at most."""
TIMELINE_FILE = "timeline.png"
LOADED, COMPUTED = "#D55E00", "#0072B2"
"""Okabe and Ito's colours, distinct also for colour-blind readers."""


class Trace(pl.Callback):
    """Records some steps of this worker, then the times of the following ones.

    Args:
        step_times: the training's; its parts are named in the trace.
    """

    def __init__(self, step_times: StepTimes, folder: Path, say: Callable[[str], None]) -> None:
        self._step_times, self._folder, self._say = step_times, folder, say
        self._profiler: profile | None = None
        self._is_recorded = False
        self._steps = 0  # finished ones, until the trace is recorded
        self._step_s: list[float] = []
        """Of the first steps of the last epoch, without the wait for their batches."""
        self._began_at = 0.0

    def on_train_start(self, *_: Any) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        self._profiler = profile(
            activities=activities,
            # One more, since the profiler counts the time before the first step, too.
            schedule=schedule(skip_first=SKIPPED + 1, wait=0, warmup=WARM_UP, active=RECORDED, repeat=1),
            on_trace_ready=self._write,
            record_shapes=True,
            profile_memory=True,
        )
        self._step_times.are_labelled = True
        self._profiler.start()

    def on_train_epoch_start(self, *_: Any) -> None:
        self._step_s = []

    def on_train_batch_start(self, *_: Any) -> None:
        """The first point where a step, and not a validation, is certain to follow."""
        assert self._profiler is not None
        if not self._is_recorded:
            self._profiler.step()
        self._began_at = time.perf_counter()

    def on_train_batch_end(self, *_: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # else the times would be those of queueing
        if len(self._step_s) < DRAWN:
            self._step_s.append(time.perf_counter() - self._began_at)
        if not self._is_recorded:
            self._steps += 1

    def on_validation_start(self, *_: Any) -> None:
        """Record steps only, so that the calls of each operation are per step."""
        if self._steps > SKIPPED + WARM_UP:
            self._stop()

    def on_train_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Run the loader alone, and draw the timeline."""
        self._stop()
        if not self._is_recorded:
            least = SKIPPED + WARM_UP + 1
            self._say(f"Profile    no trace: it needs {least} steps, and the run had {self._steps}")
        assert trainer.train_dataloader is not None
        prepared_s = seconds_of_loader(trainer.train_dataloader, len(self._step_s))
        title = compared_rates(prepared_s, self._step_s)
        self._say(f"Timeline   {title}")
        self._say(f"           {draw_timeline(prepared_s, self._step_s, title, self._folder)}")

    def on_exception(self, *_: Any) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._profiler is not None and not self._is_recorded:
            self._profiler.stop()
        self._step_times.are_labelled = False

    def _write(self, profiler: profile) -> None:
        self._step_times.are_labelled = False
        steps = self._steps - SKIPPED - WARM_UP
        if steps < 1:  # the first one failed
            return
        self._is_recorded = True
        path = self._folder / TRACE_FILE
        profiler.export_chrome_trace(str(path))
        self._say(most_expensive(profiler.key_averages(), steps, on_gpu=torch.cuda.is_available()))
        self._say(f"Trace      {path} (open in https://ui.perfetto.dev)\n")


def most_expensive(averages: Iterable[Any], steps: int, *, on_gpu: bool) -> str:
    """Table of the operations with the most self time on the GPU or CPU.

    Args:
        averages: the profiler's `key_averages`.
    """
    # The profiler holds a kernel twice: as an event of the GPU, and in the operation that launched it. The
    # table shows operations, whose names are known; the total counts kernels: some belong to no operation.
    found = [event for event in averages if not _is_label(event)]
    operations = [event for event in found if event.device_type == DeviceType.CPU]
    counted = [event for event in found if event.device_type != DeviceType.CPU] if on_gpu else operations

    def self_us(event: Any) -> float:
        return float(event.self_device_time_total if on_gpu else event.self_cpu_time_total)

    whole = sum(map(self_us, counted)) or 1.0
    lines = [
        f"Most expensive operations of {count(steps, 'step')}, by self {'GPU' if on_gpu else 'CPU'} time:",
        f"  {'share':>6} {'ms/step':>10} {'calls/step':>13}  operation",
    ]
    for event in sorted(operations, key=self_us, reverse=True)[:MOST_EXPENSIVE]:
        lines.append(
            f"  {100 * self_us(event) / whole:>5.1f}% {self_us(event) / 1000 / steps:>10.3f} "
            f"{event.count / steps:>13.1f}  {event.key[:60]}"
        )
    return "\n".join(lines)


def _is_label(event: Any) -> bool:
    """Whether it is a name that somebody has given to a part of a step. PyTorch says so since 2.5."""
    if (is_label := getattr(event, "is_user_annotation", None)) is not None:
        return bool(is_label)
    return event.key in (*PARTS, "step") or event.key.startswith("ProfilerStep")


def seconds_of_loader(loader: Iterable[Any], most: int) -> list[float]:
    """Seconds after which each of the first batches is ready where the loader runs alone, for about 20 s."""
    start, found = time.perf_counter(), list[float]()
    for _ in itertools.islice(loader, most):
        found.append(time.perf_counter() - start)
        if found[-1] > 20:
            break
    return found


def compared_rates(prepared_s: Sequence[float], step_s: Sequence[float]) -> str:
    """The rates of the loader alone and of the steps without waiting for data, and which one is lower."""
    if not prepared_s:
        return "no step was recorded"
    batches_s, steps_s = len(prepared_s) / prepared_s[-1], len(step_s) / sum(step_s)
    rates = [f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}" for rate in (batches_s, steps_s)]
    verdict = "training waits for data" if batches_s < steps_s else "batches are ready in time"
    return f"the loader prepares {rates[0]} batches/s, training uses {rates[1]}: {verdict}"


def draw_timeline(prepared_s: Sequence[float], step_s: Sequence[float], title: str, folder: Path) -> Path:
    """Draw batches and steps over time into a folder; returns the figure's path."""
    from matplotlib.figure import Figure  # heavy, and only `--profile` needs it

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    numbers, label = range(1, len(step_s) + 1), "steps, without waiting for data"
    loaded = numbers[: len(prepared_s)]
    axes.plot(list(prepared_s), loaded, color=LOADED, label="batches prepared, loader alone")
    axes.plot(list(itertools.accumulate(step_s)), numbers, color=COMPUTED, ls="--", label=label)
    axes.set(xlabel="time [s]", ylabel="batches", title=title)
    axes.legend()
    path = folder / TIMELINE_FILE
    figure.savefig(path, dpi=110)
    return path
