"""One sweep by `sweeps run`: its command, its wall time, and what its record says."""

from __future__ import annotations

import importlib
import itertools
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import _measure
from benchmarks._job import MODULES
from benchmarks._story.parts import Part, Quality
from benchmarks._story.workloads import Workload

WINDOWS = 10
"""Into which the epochs of a sweep are cut: as many values for the interval of its time."""
GRACE_EPOCHS, REDUCTION_FACTOR = 3, 3


@dataclass(frozen=True)
class Asked:
    """What one sweep is given."""

    searcher: str
    scheduler: str
    params: Mapping[str, Any]
    """Fixed hyperparameters beside those of the workload."""
    trials: int
    seed: int = 0
    target: float | None = None


@dataclass(frozen=True)
class Found:
    """What one sweep took, and came to."""

    wall_s: float
    report_times: Sequence[float]
    """Of each epoch, ascending."""
    configurations: Sequence[Mapping[str, Any]]
    quality: Quality

    def parts(self) -> list[Part]:
        """Of the whole sweep: its epochs in windows, from the first report to the last, and the rest."""
        times, last = self.report_times, len(self.report_times) - 1
        windows = min(WINDOWS, last)
        edges = [times[round(n * last / windows)] for n in range(windows + 1)]
        rest_s = self.wall_s - (times[-1] - times[0])
        return [
            Part("start and end", 1, [rest_s]),
            Part(f"{1 / windows:.0%} of the epochs", windows, [b - a for a, b in itertools.pairwise(edges)]),
        ]


def sweep(workload: Workload, asked: Asked, prepared: Path, folder: Path, slots: int, on_gpu: bool) -> Found:
    """Run one.

    Args:
        workload: what is trained.
        asked: by which search.
        prepared: folder of prepared data.
        folder: for all that it writes; new.
        slots: trials at a time, on a machine without a GPU.
        on_gpu: whether trials share a GPU, as many as fit.
    """
    folder.mkdir(parents=True)
    words = command(workload, asked, prepared, folder, slots, on_gpu)
    wall_s, _ = _measure.run_together([words], folder, {})
    return read(folder / "sweep", workload, wall_s)


def command(
    workload: Workload, asked: Asked, prepared: Path, folder: Path, slots: int, on_gpu: bool
) -> list[str]:
    """The words of `sweeps run`."""
    flags = {
        "trainable": workload.trainable, "searcher": asked.searcher, "scheduler": asked.scheduler,
        "num-trials": asked.trials, "max-epochs": workload.max_epochs, "grace-epochs": GRACE_EPOCHS,
        "reduction-factor": REDUCTION_FACTOR, "seed": asked.seed, "results-dir": folder, "name": "sweep",
        "prepared-dir": prepared,
        **({"trials-per-gpu": "auto"} if on_gpu else {"max-concurrent": slots, "cpus-per-trial": 1}),
        **({} if asked.target is None else {"target": asked.target}),
    }  # fmt: skip
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    params = [f"{name}={value}" for name, value in {**workload.fixed, **asked.params}.items()]
    swept = {word.partition("=")[0] for word in workload.space_flags}
    words += ["--params", *(word for word in params if word.partition("=")[0] not in swept)]
    words += [*workload.space_flags, "--no-baseline", "--no-preflight", "--no-ray-dashboard"]
    return [sys.executable, "-m", "sweeps.run", *words]


def read(folder: Path, workload: Workload, wall_s: float) -> Found:
    """What the record of a sweep says."""
    from sweeps.record.record import Record

    record = Record.read(folder)
    winner = record.trials[record.leaders(1)[0]]
    tests = [test.scores["test_acc"] for test in record.info.tests if "test_acc" in test.scores]
    val = winner.best_score(record.objective)
    assert val is not None
    return Found(
        wall_s,
        sorted(row.time for trial in record.trials for row in trial.epochs.values()),
        [{**trial.fixed, **trial.params} for trial in record.trials],
        Quality(val, workload.val_rows, tests[-1] if tests else None, workload.test_rows if tests else 0),
    )


def prepare(workload: Workload, prepared: Path, folder: Path) -> float:
    """Seconds of `sweeps prepare`, from the start of the command to its end."""
    module = importlib.import_module(MODULES[workload.job_model])
    params = [f"{name}={value}" for name, value in workload.fixed.items() if name in module.PREPARE_PARAMS]
    words = ["prepare", workload.trainable, "--prepared-dir", str(prepared)]
    words += ["--params", *params] if params else []
    folder.mkdir(parents=True)
    began = time.monotonic()
    _measure.run_together([[sys.executable, "-m", "sweeps", *words]], folder, {})
    return time.monotonic() - began
