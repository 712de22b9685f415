"""Trials an hour of a small model with 1, 2, 4 and 8 trials a card, and with as many as `auto` chooses."""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import _measure
from benchmarks._gpu import processes
from benchmarks._gpu.line import Line, Run, grouped, median_of, of
from benchmarks._gpu.notes import Notes
from benchmarks._measure import Goal
from benchmarks._throughput import per_hour
from sweeps.record.record import Record

AUTO = "auto"
SHARES: Sequence[int | str] = (1, 4, AUTO, 2, 8)
"""Trials a card; what the goal is about comes first."""
EPOCHS = 4
WAVES = 3
"""Trials of each place, so that all are warm at the same time."""
ROWS = 20_000
REHEARSED: Sequence[int | str] = (1, 2)
LEAST_OF_FOUR = 2.5


def measure(notes: Notes) -> None:
    for repeat in range(notes.repeats):
        for share in _measure.in_turn(REHEARSED if notes.is_rehearsal else SHARES, repeat):
            notes.measure({"share": share, "repeat": repeat}, partial(_sweep, notes, share))


def _sweep(notes: Notes, share: int | str) -> Run:
    cores = len(os.sched_getaffinity(0))
    places = cores if share == AUTO else min(int(share), cores)  # a trial takes one
    with tempfile.TemporaryDirectory(prefix="gpu-sharing-") as folder:
        flags: dict[str, Any] = {
            "trainable": "fashion_cnn", "search-space": "benchmarks.cluster_space", "searcher": "random",
            "scheduler": "none", "num-trials": WAVES * places, "max-epochs": EPOCHS, "cpus-per-trial": 1,
            "params": f"rows={128 if notes.is_rehearsal else ROWS}", "results-dir": folder, "name": "sweep",
        }  # fmt: skip
        flags |= {"max-concurrent": share} if notes.is_rehearsal else {"trials-per-gpu": share}
        words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "sweeps.run", *words, "--no-ray-dashboard"]
        said = processes.output_of(command, notes.left_s + 30)
        found = figures(Record.read(Path(folder, "sweep")).trials)
        return {**found, "chosen": chosen(said, share), "cores": cores}


def figures(trials: Sequence[Any]) -> Run:
    """Of a sweep, once each process has trained an epoch."""
    ended, costs = [], []
    for trial in trials:
        for row in trial.epochs.values():
            ended.append(((trial.place["pc"], trial.place["pid"]), row.time))
            costs.append(row.costs)
    processes_seen = len({process for process, _ in ended})
    epochs_per_hour = per_hour(ended, processes_seen)
    return {
        "processes": processes_seen,
        "trials": len(trials),
        "trials_per_hour": epochs_per_hour / EPOCHS,
        "epochs_per_s": epochs_per_hour / 3600,
        "epoch_s": statistics.median(row.seconds for trial in trials for row in trial.epochs.values()),
        **{name: _cost(costs, name) for name in ("gpu_memory_gb", "gpu_util_pct", "data_wait_pct")},
    }


def chosen(said: str, share: int | str) -> int:
    """Trials on a card, as the sweep said it last."""
    found = re.findall(r"(\d+) trials? on each from now on", said)
    return int(found[-1]) if found else 1 if share == AUTO else int(share)


def _cost(costs: Sequence[Mapping[str, float]], name: str) -> float | None:
    return _measure.median([each[name] for each in costs if name in each])


def lines(runs: Sequence[Run]) -> list[Line]:
    def line(group: Sequence[Run]) -> Line:
        share = group[0]["share"]
        words = f"auto ({group[0]['chosen']})" if share == AUTO else str(share)
        if share != AUTO and (cores := group[0].get("cores", share)) < share:
            words += f" ({cores} at a time, one for each CPU core)"
        return Line(
            what=f"fashion_cnn, trials a card: {words}",
            speed=median_of(group, "trials_per_hour"),
            unit="trials/h",
            time_s=median_of(group, "epoch_s"),
            memory_gb=median_of(group, "gpu_memory_gb"),
            gpu_util_pct=median_of(group, "gpu_util_pct"),
            data_wait_pct=median_of(group, "data_wait_pct"),
        )

    order = [1, 2, 4, 8, AUTO]
    return grouped(sorted(runs, key=lambda run: order.index(run["share"])), ("share",), line)


def goals(runs: Sequence[Run]) -> list[Goal]:
    return [Goal("trials_per_hour_4_to_1", _ratio(runs, 4), ">=", LEAST_OF_FOUR)]


def remarks(runs: Sequence[Run]) -> list[str]:
    found = []
    for run in of(runs, share=AUTO)[:1]:
        found.append(
            f"auto chose {run['chosen']} trials a card; {run['processes']} processes trained at most, for a "
            "trial takes a CPU core too."
        )
    ratios = {share: _ratio(runs, share) for share in SHARES if share != 1}
    words = [f"{share} {ratio:.2f}" for share, ratio in ratios.items() if ratio is not None]
    return [*found, f"Trials/h as a multiple of one trial a card: {', '.join(words)}."] if words else found


def _ratio(runs: Sequence[Run], share: int | str) -> float | None:
    """Median over the repeats that have both."""
    found = []
    for one in of(runs, share=1):
        found += [
            run["trials_per_hour"] / one["trials_per_hour"]
            for run in of(runs, share=share, repeat=one["repeat"])
        ]
    return _measure.median(found)
