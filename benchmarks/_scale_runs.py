"""The runs of `benchmarks.scale`: a sweep of trivial trials, Ray Tune alone, and plain fits."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import _measure
from benchmarks._driver_costs import EPOCHS, SPACE, TRAINABLE, WORKERS
from benchmarks._job import Job

FLOOR_TRIALS = 400
Run = dict[str, Any]


class Sample(NamedTuple):
    """What is seen of a sweep from outside."""

    time: float
    driver_mb: float
    cpu_s: float
    """Of the whole machine, since its start."""


def beside(sweep: Run, bare: Run, floor: Run) -> Run:
    """A sweep compared with Ray Tune alone, and with the floor."""
    return {
        "bare": bare["trials_per_s"],
        "bare_of_last_tenth": bare["trials_per_s_of_last_tenth"],
        "to_bare": sweep["trials_per_s"] / bare["trials_per_s"],
        "own_cpu_ms": sweep["cpu_ms_per_trial"] - floor["cpu_ms_per_fit"],
    }


def one_sweep(trials: int, scheduler: str) -> Run:
    """A whole sweep, watched from outside and read from its record."""
    from sweeps.record.record import Record

    busy = _measure.busy_cores()
    with tempfile.TemporaryDirectory(prefix="scale-") as base:
        flags = {
            "trainable": TRAINABLE, "search-space": SPACE, "searcher": "random", "scheduler": scheduler,
            "num-trials": trials, "max-epochs": EPOCHS, "grace-epochs": 1, "reduction-factor": 3,
            "max-concurrent": WORKERS, "cpus-per-trial": 1, "results-dir": base, "name": "sweep",
        }  # fmt: skip
        words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        spent = Path(base) / "tables.json"
        command = [sys.executable, "-m", "benchmarks._timed_sweep", str(spent), *words, "--no-ray-dashboard"]
        began, samples = time.perf_counter(), list[Sample]()
        with (Path(base) / "output.log").open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            while process.poll() is None:
                samples.append(Sample(time.time(), _rss_mb(process.pid), _measure.busy_s()))
                time.sleep(0.1)
        whole_s = time.perf_counter() - began
        if process.returncode != 0:
            raise RuntimeError((Path(base) / "output.log").read_text(errors="replace")[-3000:])
        record = Record.read(Path(base) / "sweep")
        tables_s = sum(json.loads(spent.read_text()))
    ends = sorted(trial.end for trial in record.trials if trial.end is not None)
    epochs = sum(len(trial.epochs) for trial in record.trials)
    return {
        "trials": trials,
        "scheduler": scheduler,
        "epochs": epochs,
        "busy_before": round(busy, 2),
        "tables_percent": 100 * tables_s / whole_s,
        **figures(ends, samples, whole_s),
    }


def figures(ends: Sequence[float], samples: Sequence[Sample], whole_s: float) -> Run:
    """Rates and growth, from when each trial ended (in order)."""
    first = len(ends) // 10
    warm, over = _at(samples, ends[first]), _at(samples, ends[-1])
    counted = len(ends) - 1 - first
    return {
        "whole_s": round(whole_s, 2),
        **rates(ends),
        "whole_trials_per_s": len(ends) / whole_s,
        "cpu_ms_per_trial": (over.cpu_s - warm.cpu_s) * 1000 / counted,
        "kb_per_trial": (over.driver_mb - warm.driver_mb) * 1000 / counted,
        "driver_mb": round(max(sample.driver_mb for sample in samples)),
    }


def rates(ends: Sequence[float]) -> Run:
    """Trials per second after a tenth of them have ended, and of the last tenth."""
    first = len(ends) // 10
    return {
        "trials_per_s": (len(ends) - 1 - first) / (ends[-1] - ends[first]),
        "trials_per_s_of_last_tenth": first / (ends[-1] - ends[-first - 1]),
    }


def bare_tune(trials: int) -> Run:
    """The rates of Ray Tune alone."""
    with tempfile.TemporaryDirectory(prefix="bare-tune-") as base:
        Job(
            model="trivial", trials=[], seed=0, epochs=[], max_epochs=EPOCHS, grace_epochs=1,
            reduction_factor=3, workers=WORKERS, folder=base,
        ).write()  # fmt: skip
        command = [sys.executable, "-m", "benchmarks._bare_tune", base, str(trials)]
        _measure.run_together([command], Path(base), {"OMP_NUM_THREADS": "1"})
        ends: list[float] = json.loads((Path(base) / "ended.json").read_text())
    return rates(ends)


def floor() -> Run:
    """Rate and CPU time of Lightning's `fit()` of the same model in plain processes, imports left out."""
    with tempfile.TemporaryDirectory(prefix="scale-") as base:
        times, cpu = [], []
        for trials in (WORKERS, FLOOR_TRIALS + WORKERS):
            job = Job(
                model="trivial", trials=[{"x": 0.5}] * trials, seed=0,
                epochs=[1 + (number % 3 == 0) for number in range(trials)],
                max_epochs=EPOCHS, grace_epochs=1, reduction_factor=3, workers=WORKERS, folder=base,
            )  # fmt: skip
            job.write()
            commands = [
                [sys.executable, "-m", "benchmarks._floor", base, str(worker), "lightning"]
                for worker in range(WORKERS)
            ]
            wall_s, cpu_s = _measure.run_together(commands, Path(base), {"OMP_NUM_THREADS": "1"})
            times.append(wall_s)
            cpu.append(cpu_s)
    return {
        "fits_per_s": FLOOR_TRIALS / (times[1] - times[0]),
        "cpu_ms_per_fit": 1000 * (cpu[1] - cpu[0]) / FLOOR_TRIALS,
    }


def _at(samples: Sequence[Sample], moment: float) -> Sample:
    """What was taken last before a moment."""
    return next((sample for sample in reversed(samples) if sample.time <= moment), samples[0])


def _rss_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS")), 0.0)
