"""Epochs of the two Fashion-MNIST models on all rows, in each precision, with ZeRO 2, and compiled."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks._gpu import fits
from benchmarks._gpu.line import Line, Run, grouped, median_of, of
from benchmarks._gpu.notes import Notes
from benchmarks._measure import Goal
from trainables._shared import fashion_mnist

MODELS = ("fashion_cnn", "fashion_vit")
SHIPPED, LARGE = "as shipped", "large"
SIZES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    SHIPPED: {"fashion_cnn": {}, "fashion_vit": {}},
    LARGE: {
        "fashion_cnn": {"width": 128, "batch_size": 1024},
        "fashion_vit": {"width": 384, "depth": 6, "heads": 6, "patch": 4, "batch_size": 1024},
    },
}
"""The shipped models are too small for a card: the CPU starts kernels, and the card waits for them."""
WAYS: Mapping[str, Mapping[str, Any]] = {
    "fp32": {"precision": "32"},
    "bf16": {"precision": "bf16-mixed"},
    "fp16": {"precision": "16-mixed"},
    "fp16, ZeRO 2": {"precision": "16-mixed", "strategy": "deepspeed_stage_2"},
    "fp16, compiled": {"precision": "16-mixed", "compile": True},
}
REHEARSED_ROWS = 128


def measure(notes: Notes) -> None:
    """The large models first. What is compiled comes last: compiling takes most of the time."""
    for is_compiled in (False,) if notes.is_rehearsal else (False, True):
        for size in (LARGE, SHIPPED):
            for model in MODELS:
                for way, settings in WAYS.items():
                    if settings.get("compile", False) == is_compiled:
                        _measure_one(notes, model, size, way)


def _measure_one(notes: Notes, model: str, size: str, way: str) -> None:
    settings, rows = {"strategy": "single", **WAYS[way]}, 0
    changes = dict(SIZES[size][model])
    if notes.is_rehearsal:
        rows = REHEARSED_ROWS
        if settings["precision"] == "16-mixed":
            settings["precision"] = "bf16-mixed"  # a CPU computes no fp16
        if size == LARGE:
            changes.update(batch_size=64, width=16)
            if model == "fashion_vit":
                changes.update(depth=1, heads=2)
    module: Any = importlib.import_module(f"trainables.{model}")
    params = module.Params(**changes, rows=rows)

    def measured() -> Run:
        count = fashion_mnist.train_rows(rows)
        return fits.epochs(module, params, notes.repeats, count, lambda: notes.left_s > 0, **settings)

    notes.measure({"model": model, "size": size, "way": way}, measured)


def lines(runs: Sequence[Run]) -> list[Line]:
    def line(group: Sequence[Run]) -> Line:
        first = group[0]
        return Line(
            what=f"{first['model']} {first['size']}, {first['way']}",
            speed=median_of(group, "rows_per_s"),
            unit="images/s",
            time_s=median_of(group, "epoch_s"),
            memory_gb=median_of(group, "gpu_memory_gb"),
            gpu_util_pct=median_of(group, "gpu_util_pct"),
            data_wait_pct=median_of(group, "data_wait_pct"),
        )

    order = [(model, size) for model in MODELS for size in SIZES]
    inner = sorted(runs, key=lambda run: order.index((run["model"], run["size"])))
    return grouped(inner, ("model", "size", "way"), line)


def goals(runs: Sequence[Run]) -> list[Goal]:
    return []


def remarks(runs: Sequence[Run]) -> list[str]:
    """Speed-ups over fp32, and what compiling takes."""
    found = []
    for model in MODELS:
        for size in SIZES:
            plain = median_of(of(runs, model=model, size=size, way="fp32"), "rows_per_s")
            ratios = [
                f"{way} {rate / plain:.2f}"
                for way in WAYS
                if way != "fp32"
                and plain
                and (rate := median_of(of(runs, model=model, size=size, way=way), "rows_per_s"))
            ]
            if ratios:
                found.append(f"{model} {size}: speed as a multiple of fp32: {', '.join(ratios)}.")
            first = median_of(of(runs, model=model, size=size, way="fp16, compiled"), "first_epoch_s")
            if first is not None:
                found.append(f"{model} {size}: the first compiled epoch takes {first:.1f} s.")
    return found
