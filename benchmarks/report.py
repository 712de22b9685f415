"""What the report of a large sweep takes: `python -m benchmarks.report`

The command `python -m sweeps.report`, from its start to its exit, over records that the real record wrote:
1,000 trials of 50 epochs each, and 10,000 that were pruned as by ASHA (3 epochs, some 9,
some 27).
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from benchmarks import _measure
from benchmarks._measure import Goal
from sweeps.record.record import Record
from sweeps.space.point import OptunaPoint, Point

RANGES: dict[str, BaseDistribution] = {
    "lr": FloatDistribution(1e-4, 1.0, log=True),
    "momentum": FloatDistribution(0.5, 0.99),
    "weight_decay": FloatDistribution(1e-6, 1e-2, log=True),
    "dropout": FloatDistribution(0.0, 0.5),
    "width": CategoricalDistribution([4, 8, 16]),
    "batch_size": CategoricalDistribution([32, 64, 128]),
}
COSTS = {"data_wait_pct": 5.0, "forward_pct": 40.0, "backward_pct": 40.0, "cpu_busy_pct": 80.0}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="Times that each is measured (default: 3).")
    asked = parser.parse_args(arguments)
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        sweeps = {"1000x50": (1000, [50]), "10000_pruned": (10_000, [3, 3, 9, 3, 3, 9, 3, 3, 27])}
        for name, (trials, lasts) in sweeps.items():
            write(Path(place) / name, trials, lasts)
        for repeat in range(asked.repeats):
            for name in sweeps:
                runs.append({"repeat": repeat, "sweep": name, **report(Path(place) / name)})
                print(f"{name}, repeat {repeat}: {runs[-1]['wall_s']:.1f} s", flush=True)
    print(f"{'sweep':14}{'s':>6}{'CPU s':>7}{'page MB':>9}   medians")
    for name in sweeps:
        print(f"{name:14}{median(runs, name, 'wall_s'):6.1f}{median(runs, name, 'cpu_s'):7.1f}", end="")
        print(f"{median(runs, name, 'page_mb'):9.1f}")
    medians = {name: median(runs, name, "wall_s") for name in sweeps}
    goal = Goal("report_1000x50_s", medians["1000x50"], "<=", 10.0)
    _measure.write("report", {"runs": runs, "medians_s": medians}, [goal])
    return 0


def median(runs: Sequence[dict[str, Any]], sweep: str, figure: str) -> float:
    """Over the repeats of one sweep."""
    return statistics.median(float(run[figure]) for run in runs if run["sweep"] == sweep)


def report(folder: Path) -> dict[str, Any]:
    """Seconds by the clock and of the CPU, and megabytes of the page."""
    busy = _measure.busy_cores()
    began, before = time.monotonic(), os.times()
    subprocess.run([sys.executable, "-m", "sweeps.report", str(folder)], check=True, capture_output=True)
    wall_s, after = time.monotonic() - began, os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    size_mb = (folder / "report.html").stat().st_size / 1e6
    return {"wall_s": wall_s, "cpu_s": cpu_s, "page_mb": size_mb, "busy_before": busy}


def write(folder: Path, trials: int, lasts: Sequence[int]) -> None:
    """The record of a sweep that was drawn at random."""
    folder.mkdir()
    about = {"sweep": folder.name, "trainable": "toy", "metric": "acc", "seed": 0, "max_epochs": max(lasts)}
    record = Record.create(folder, folder.name, "max", about)
    source = random.Random(0)
    with record.together():
        for number in range(trials):
            params = {name: _draw(source, of) for name, of in RANGES.items()}
            trial = record.begin(Point("toy", params), OptunaPoint(params, RANGES), 0)
            record.place(number, {"pc": f"pc{number % 3}", "pid": number % 6, "gpu": ""})
            last = lasts[number % len(lasts)]
            for epoch in range(1, last + 1):
                score = 1 - abs(math.log10(params["lr"]) + 2) / 4 - 0.5 / epoch + source.gauss(0, 0.01)
                record.report(trial.number, epoch, score, {"acc": score, "loss": 1 - score}, 1.0, COSTS)
            record.end(number, "finished" if last == max(lasts) else "pruned")


def _draw(source: random.Random, of: BaseDistribution) -> Any:
    if isinstance(of, CategoricalDistribution):
        return source.choice(of.choices)
    assert isinstance(of, FloatDistribution)
    if of.log:
        return math.exp(source.uniform(math.log(of.low), math.log(of.high)))
    return source.uniform(of.low, of.high)


if __name__ == "__main__":
    sys.exit(main())
