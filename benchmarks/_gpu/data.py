"""Rows to the device by a `ParquetDataModule` and by a DataLoader; the wait for data of epochs in fp16."""

from __future__ import annotations

import importlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks import _measure
from benchmarks._gpu import fits, photographs, train
from benchmarks._gpu.line import Line, Run, grouped, median_of, of
from benchmarks._gpu.notes import Notes
from benchmarks._gpu.photographs import BATCH_ROWS, Noise
from benchmarks._loaders import images_of
from benchmarks._measure import Goal
from sweeps.training.data.datamodule import ParquetDataModule
from trainables._shared import fashion_mnist

OURS, THEIRS = "ParquetDataModule", "DataLoader"
SIDES = (32, 96)
"""Pixels of an image's side: rows of 3 and 27 KB."""
MIB = 256
SECONDS = 1.0
LOADER_WORKERS = 4
PHOTOGRAPHS = "CNN on rows of 27 KB"
MOST_WAIT_PCT = 5.0


def measure(notes: Notes) -> None:
    """The wait for data first: a goal is about it."""
    with tempfile.TemporaryDirectory(prefix="gpu-data-") as folder:
        mib = 1 if notes.is_rehearsal else MIB
        images = {}
        for side in SIDES:
            (place := Path(folder, str(side))).mkdir()
            images[side] = Noise(place, side, max(64, mib * 2**20 // (3 * side**2)), files=0)
        _waits(notes, images[SIDES[-1]])
        for side, some in images.items():
            _loaders(notes, side, some)


def lines(runs: Sequence[Run]) -> list[Line]:
    def line(group: Sequence[Run]) -> Line:
        return Line(
            what=f"{group[0]['kind']}, {group[0]['what']}",
            speed=median_of(group, "rows_per_s"),
            unit="rows/s",
            time_s=median_of(group, "epoch_s"),
            memory_gb=median_of(group, "gpu_memory_gb"),
            gpu_util_pct=median_of(group, "gpu_util_pct"),
            data_wait_pct=median_of(group, "data_wait_pct"),
        )

    return grouped(runs, ("kind", "what"), line)


def goals(runs: Sequence[Run]) -> list[Goal]:
    """Of each model that was trained."""
    waits = of(runs, kind="training")
    names = dict.fromkeys(run["what"] for run in waits) or ["training"]
    return [
        Goal(
            f"data_wait_pct_{name.replace(' ', '_').replace(',', '')}",
            median_of(of(waits, what=name), "data_wait_pct"),
            "<=",
            MOST_WAIT_PCT,
        )
        for name in names
    ]


def remarks(runs: Sequence[Run]) -> list[str]:
    found = []
    for side in SIDES:
        ours = median_of(of(runs, side=side, loader=OURS), "rows_per_s")
        rates = [run["rows_per_s"] for run in of(runs, side=side, loader=THEIRS)]
        if ours is not None and rates:
            found.append(
                f"Rows of {_kb(side)}: {OURS} is {ours / max(rates):.1f} times as fast to the device as the "
                "faster DataLoader over a TensorDataset."
            )
    return found


def _waits(notes: Notes, images: Noise) -> None:
    rows = train.REHEARSED_ROWS if notes.is_rehearsal else 0
    for model in train.MODELS:
        module: Any = importlib.import_module(f"trainables.{model}")
        for size, changes in train.SIZES.items():
            if notes.is_rehearsal and size == train.LARGE:
                continue
            params = module.Params(**changes[model], rows=rows)
            count = fashion_mnist.train_rows(rows)
            _wait(notes, f"{model} {size}", module, params, count)
    params = photographs.Params(folder=images.parquet(), width=4 if notes.is_rehearsal else 64)
    _wait(notes, PHOTOGRAPHS, photographs, params, images.rows)


def _wait(notes: Notes, name: str, module: Any, params: Any, rows: int) -> None:
    def measured() -> Run:
        return fits.epochs(module, params, notes.repeats, rows, lambda: notes.left_s > 0, strategy="single")

    notes.measure({"kind": "training", "what": name}, measured)


def _loaders(notes: Notes, side: int, images: Noise) -> None:
    workers = min(LOADER_WORKERS, len(os.sched_getaffinity(0)))
    arms: dict[tuple[str, int], Callable[[], Iterable[Any]]] = {
        (OURS, 0): lambda: ParquetDataModule(images.parquet(), BATCH_ROWS).train_dataloader(),
        (THEIRS, 0): lambda: _tensors(images, 0),
        (THEIRS, workers): lambda: _tensors(images, workers),
    }
    seconds = 0.01 if notes.is_rehearsal else SECONDS
    made: dict[tuple[str, int], Iterable[Any]] = {}
    for repeat in range(notes.repeats):
        for loader, processes in _measure.in_turn(list(arms), repeat):
            words = f"{loader}, {processes} loader workers" if loader == THEIRS else loader
            what = {"kind": f"rows of {_kb(side)}", "what": words, "repeat": repeat}

            def measured(key: tuple[str, int] = (loader, processes)) -> Run:
                if key not in made:
                    made[key] = arms[key]()
                rate = rows_per_s(made[key], seconds)
                return {
                    "rows_per_s": rate, "gb_per_s": rate * 3 * side**2 / 1e9, "side": side, "loader": key[0],
                    "workers": key[1],
                }  # fmt: skip

            notes.measure(what, measured)


def _tensors(images: Noise, workers: int) -> Iterable[Any]:
    rows = TensorDataset(torch.from_numpy(images.array), torch.from_numpy(images.labels))
    return DataLoader(
        rows, BATCH_ROWS, shuffle=True, num_workers=workers, persistent_workers=workers > 0,
        pin_memory=torch.cuda.is_available(),
    )  # fmt: skip


def rows_per_s(batches: Iterable[Any], at_least_s: float) -> float:
    """That arrive on the device, of whole passes, behind one that warms up."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows, began = 0, 0.0
    while True:
        for batch in batches:
            values = batch.values() if isinstance(batch, dict) else batch
            for value in values:
                value.to(device, non_blocking=True)
            rows += len(images_of(batch))
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        if not began:
            rows, began = 0, time.perf_counter()
        elif (seconds := time.perf_counter() - began) >= at_least_s:
            return rows / seconds


def _kb(side: int) -> str:
    return f"{round(side**2 * 3 / 1024)} KB"
