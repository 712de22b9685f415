"""ZeRO 2 beside plain fp16 at three sizes of a transformer, on one card: time of a step, memory at its peak.

Each run is a process of its own: `python -m benchmarks._gpu.zero SIZE WAY STEPS DEVICE`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from benchmarks import _measure
from benchmarks._gpu import processes
from benchmarks._gpu.line import Line, Run, grouped, median_of, of
from benchmarks._gpu.notes import Notes
from benchmarks._measure import Goal
from sweeps.training.config import Strategy

SIZES: Mapping[str, tuple[int, int]] = {"1 M": (128, 4), "100 M": (1024, 8), "1 B": (2560, 13)}
"""Parameters to width and depth of the transformer."""
REHEARSED: Mapping[str, tuple[int, int]] = {"tiny": (32, 1)}
WAYS: Mapping[str, Strategy] = {"fp16": "single", "fp16, ZeRO 2": "deepspeed_stage_2"}
STEPS = 10
"""That are timed for each repeat, behind those that warm up."""
WARM_UP_STEPS = 8
"""DeepSpeed's loss scale falls in the first ones, and skips them."""
LONGEST_S = 150.0
"""Of a run, with its start."""
FOUND = "found: "
"""Before the figures of a run, on its output."""


def measure(notes: Notes) -> None:
    device = "cpu" if notes.is_rehearsal else "cuda"
    steps = (
        2 if notes.is_rehearsal else STEPS * notes.repeats
    )  # a process takes longer to start than to train
    for size in REHEARSED if notes.is_rehearsal else SIZES:
        for way in WAYS:
            notes.measure({"size": size, "way": way}, partial(_in_a_process, notes, size, way, steps, device))


def _in_a_process(notes: Notes, size: str, way: str, steps: int, device: str) -> Run:
    command = [sys.executable, "-m", "benchmarks._gpu.zero", size, way, str(steps), device]
    said = processes.output_of(command, min(LONGEST_S, notes.left_s + 30), dict(os.environ))
    found: Run = json.loads(next(it for it in said.splitlines() if it.startswith(FOUND)).removeprefix(FOUND))
    return found


def lines(runs: Sequence[Run]) -> list[Line]:
    def line(group: Sequence[Run]) -> Line:
        step_s = median_of(group, "step_s")
        return Line(
            what=f"{group[0]['size']} parameters, {group[0]['way']}",
            speed=1 / step_s if step_s else None,
            unit="steps/s",
            time_s=step_s,
            memory_gb=median_of(group, "gpu_memory_gb"),
        )

    sizes = [*SIZES, *REHEARSED]
    return grouped(sorted(runs, key=lambda run: sizes.index(run["size"])), ("size", "way"), line)


def goals(runs: Sequence[Run]) -> list[Goal]:
    return []


def remarks(runs: Sequence[Run]) -> list[str]:
    """The sizes at which ZeRO 2 pays, in time and in memory."""
    found = [_pays(runs, "step_s", "time"), _pays(runs, "gpu_memory_gb", "GPU memory")]
    failed = [
        f"{run['size']}, {run['way']}: {run['failed'].strip().splitlines()[-1]}."
        for run in runs
        if "failed" in run
    ]
    return [*filter(None, found), *failed]


def _pays(runs: Sequence[Run], figure: str, of_what: str) -> str:
    plain, zero = WAYS
    ratios = {}
    for size in [*SIZES, *REHEARSED]:
        ours, theirs = (median_of(of(runs, size=size, way=way), figure) for way in (zero, plain))
        if ours is not None and theirs:
            ratios[size] = ours / theirs
    if not ratios:
        return ""
    words = ", ".join(f"{ratio:.2f} at {size}" for size, ratio in ratios.items())
    less = [size for size, ratio in ratios.items() if ratio < 1]
    where = f"where the model has {' or '.join(less)} parameters" if less else "at no size"
    return f"ZeRO 2 on one card takes less {of_what} than plain fp16 {where} (its share is {words})."


def train(size: str, way: str, steps: int, device: str) -> Run:
    """Train some steps by `Fit`.

    Returns:
        parameters, step_s (median), gpu_memory_gb and gpu_reserved_gb at the peak.
    """
    import torch

    from benchmarks._gpu import transformer
    from sweeps.kinds.lightning import LightningFile
    from sweeps.training.config import FitConfig
    from sweeps.training.runs.fit_loop import Fit

    width, depth = {**SIZES, **REHEARSED}[size]
    module: Any = SimpleNamespace(
        __name__="transformer", Params=None, METRIC="train_loss", MODE="min",
        build_model=lambda params: transformer.Transformer(width, depth, device),
        build_data=lambda params: transformer.Tokens(8 if device == "cuda" else 2),
    )  # fmt: skip
    config = FitConfig(
        max_epochs=1, metric="train_loss", mode="min", strategy=WAYS[way],
        precision="16-mixed" if device == "cuda" else "bf16-mixed",
    )  # fmt: skip
    timed = transformer.Steps(WARM_UP_STEPS, steps)
    fit = Fit(LightningFile(module.__name__, module), None, config)
    with contextlib.suppress(transformer.EnoughSteps):
        fit.callbacks.append(timed)
        while fit.advance() is not None:
            pass
    has_gpu = torch.cuda.is_available()
    return {
        "parameters": timed.parameters,
        "step_s": _measure.median(timed.seconds),
        "gpu_memory_gb": torch.cuda.max_memory_allocated() / 1e9 if has_gpu else None,
        "gpu_reserved_gb": torch.cuda.max_memory_reserved() / 1e9 if has_gpu else None,
    }


if __name__ == "__main__":
    began = time.perf_counter()
    result = train(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
    print(FOUND + json.dumps({**result, "whole_s": round(time.perf_counter() - began, 1)}), flush=True)
    sys.stdout.flush()
    os._exit(0)  # threads of DeepSpeed and NCCL may wait for each other at the end
