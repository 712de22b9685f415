"""Whether sweeps that share a PC are fair: `python -m benchmarks.sharing`

2, 3 and 5 real sweeps begin at the same time on one Ray of this PC. Their trials are unequal: short and long
epochs, one CPU or two, and one sweep with twice the share of the others. Each trial only computes. What a
sweep receives is the CPU time of the processes of its trials (psutil, every 2 s), which are known by their
environment. Due is each sweep's share of the sum.

What is compared are all windows of `--window-s`, after the first `--skip-s`. A window is off by what a sweep
received in it more or less than its due, in percent of that. What all together received is compared with the
seconds of the cores that Ray has: a division that leaves places idle is not fair to anyone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks import _measure
from benchmarks._measure import Goal
from sweeps.common.local_dirs import DATA_DIR_VARIABLE
from tests.support.heads import OPEN, head

EVERY_S = 2.0
GOAL_PERCENT = 10.0
GOAL_RECEIVED_PERCENT = 80.0
"""Of the cores' time; the rest goes to drivers, to Ray, and to moves."""
Run = dict[str, Any]
Series = Mapping[str, Sequence[tuple[float, float]]]
"""By sweep, seconds since the start and the CPU seconds that it has received by then."""


@dataclass(frozen=True)
class Kind:
    """A sweep."""

    name: str
    epoch_cpu_s: float
    cpus: int = 1
    share: float = 1.0
    epochs: int = 9


SHORT, LONG = Kind("short epochs", 1.0), Kind("long epochs", 8.0)
WIDE, DOUBLE = Kind("2 CPUs", 6.0, cpus=2), Kind("share 2", 3.0, share=2.0)
ARMS = {
    2: (SHORT, LONG),
    3: (SHORT, LONG, WIDE),
    5: (SHORT, LONG, WIDE, DOUBLE, Kind("one epoch", 4.0, epochs=1)),
}


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    runs: list[Run] = []
    for number in asked.sweeps:
        kinds = ARMS[number]
        busy = _measure.busy_cores()
        series = together(kinds, asked.minutes * 60, asked.cpus)
        found = off_percent(kinds, series, asked.skip_s, asked.window_s)
        cores = min(asked.cpus, len(os.sched_getaffinity(0)))
        received = received_percent(series, cores, asked.skip_s, asked.window_s)
        run = {"sweeps": number, "busy_before": round(busy, 2), "cores": cores, "kinds": found}
        runs.append({**run, "least_received_percent": received})
        print(describe(runs[-1:]), flush=True)
    content = {"minutes": asked.minutes, "window_s": asked.window_s, "skip_s": asked.skip_s, "runs": runs}
    _measure.write("sharing", content, goals(runs))
    return 0


def together(kinds: Sequence[Kind], seconds: float, cpus: int) -> Series:
    """Let sweeps run for a while on one Ray; what each received."""
    series: dict[str, list[tuple[float, float]]] = {kind.name: [] for kind in kinds}
    with (
        tempfile.TemporaryDirectory(prefix="sharing-") as base,
        head(OPEN, offers=[f"--num-cpus={cpus}"]) as where,
    ):
        begun = [_begin(kind, Path(base, str(number)), where.address) for number, kind in enumerate(kinds)]
        try:
            meter, began = _Meter({str(Path(base, str(n))): k.name for n, k in enumerate(kinds)}), time.time()
            while (passed_s := time.time() - began) < seconds:
                for name, cpu_s in meter.read().items():
                    series[name].append((passed_s, cpu_s))
                for kind, sweep, log in begun:
                    if sweep.poll() is not None:
                        raise RuntimeError(f"{kind.name} has ended:\n{log.read_text()[-3000:]}")
                time.sleep(EVERY_S)
        finally:
            for _, sweep, _ in begun:
                sweep.terminate()
            for _, sweep, _ in begun:
                sweep.wait(timeout=300)
    return series


def _begin(kind: Kind, folder: Path, address: str) -> tuple[Kind, subprocess.Popen[bytes], Path]:
    folder.mkdir()
    flags = {
        "trainable": "benchmarks.burner", "params": f"epoch_cpu_s={kind.epoch_cpu_s}", "searcher": "random",
        "scheduler": "none", "num-trials": 100_000, "max-epochs": kind.epochs, "cpus-per-trial": kind.cpus,
        "share": kind.share, "results-dir": folder, "name": kind.name.replace(" ", "_"), "address": address,
    }  # fmt: skip
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    log = folder / "printed.log"
    with log.open("wb") as output:
        sweep = subprocess.Popen(
            [sys.executable, "-m", "sweeps.run", *words],
            env={**os.environ, **OPEN, DATA_DIR_VARIABLE: str(folder)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return kind, sweep, log


class _Meter:
    """CPU seconds of Ray's workers, ended ones included, by the folder of data in their environment.

    Args:
        sweeps: folder to name.
    """

    def __init__(self, sweeps: Mapping[str, str]) -> None:
        self._sweeps = sweeps
        self._of: dict[tuple[int, float], tuple[str, float]] = {}

    def read(self) -> dict[str, float]:
        """By name, up to now."""
        for process in psutil.process_iter():
            try:
                key = process.pid, process.create_time()
                if key not in self._of:
                    name = self._sweeps.get(process.environ().get(DATA_DIR_VARIABLE, ""), "")
                    if not name or not process.cmdline()[0].startswith("ray::"):
                        continue
                    self._of[key] = name, 0.0
                times = process.cpu_times()
                self._of[key] = self._of[key][0], times.user + times.system
            except (psutil.Error, IndexError):  # it has ended, or is another's
                continue
        totals: dict[str, float] = defaultdict(float, dict.fromkeys(self._sweeps.values(), 0.0))
        for name, cpu_s in self._of.values():
            totals[name] += cpu_s
        return totals


def windows(series: Series, skip_s: float, window_s: float) -> Iterator[tuple[float, dict[str, float]]]:
    """The seconds of each window, and what each sweep received in it."""
    times = [at for at, _ in next(iter(series.values()))]
    for index, start_s in enumerate(times):
        end = next((n for n, at in enumerate(times) if at >= start_s + window_s), None)
        if start_s >= skip_s and end is not None:
            received = {name: points[end][1] - points[index][1] for name, points in series.items()}
            yield times[end] - start_s, received


def received_percent(series: Series, cores: int, skip_s: float, window_s: float) -> float | None:
    """What all sweeps together received of the time of the cores, in the window where that was least."""
    found = windows(series, skip_s, window_s)
    return min((100 * sum(got.values()) / (cores * seconds) for seconds, got in found), default=None)


def off_percent(kinds: Sequence[Kind], series: Series, skip_s: float, window_s: float) -> list[Run]:
    """For each sweep, by how many percent of its due the windows are off, at the least and at the most."""
    shares = sum(kind.share for kind in kinds)
    rows: list[Run] = []
    for kind in kinds:
        off = []
        for _, received in windows(series, skip_s, window_s):
            due = sum(received.values()) * kind.share / shares
            off.append(100 * (received[kind.name] / due - 1))
        rows.append(
            {
                **asdict(kind),
                "due_percent": 100 * kind.share / shares,
                "cpu_s": series[kind.name][-1][1],
                "windows": len(off),
                "least_off_percent": min(off, default=None),
                "most_off_percent": max(off, default=None),
            }
        )
    return rows


def describe(runs: Sequence[Run]) -> str:
    """A table of what each sweep received, and the part of the cores' time that all did."""
    table = _measure.table(
        ("sweeps", "trials", "share", "due %", "CPU s", "windows", "off by %", "to %"),
        [
            (
                str(run["sweeps"]),
                row["name"],
                f"{row['share']:g}",
                _measure.number(row["due_percent"], 1),
                _measure.number(row["cpu_s"], 0),
                str(row["windows"]),
                _measure.number(row["least_off_percent"], 1),
                _measure.number(row["most_off_percent"], 1),
            )
            for run in runs
            for row in run["kinds"]
        ],
    )
    all_of = [
        f"{run['sweeps']} sweeps received at least {_measure.number(run['least_received_percent'], 1)} % of "
        f"the time of {run['cores']} cores"
        for run in runs
    ]
    return "\n".join([table, *all_of])


def goals(runs: Sequence[Run]) -> list[Goal]:
    """Of each number of sweeps the window that is off most, and the one in which all received least."""
    found = []
    for run in runs:
        ends = [row[end] for row in run["kinds"] for end in ("least_off_percent", "most_off_percent")]
        most = max((abs(value) for value in ends if value is not None), default=None)
        found.append(Goal(f"off_percent_of_{run['sweeps']}_sweeps", most, "<=", GOAL_PERCENT))
        least = run["least_received_percent"]
        found.append(Goal(f"received_percent_of_{run['sweeps']}_sweeps", least, ">=", GOAL_RECEIVED_PERCENT))
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sharing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sweeps", type=int, nargs="*", choices=[*ARMS], default=[*ARMS], help="at a time")
    parser.add_argument("--minutes", type=float, default=40.0, help="of each run")
    parser.add_argument("--window-s", type=float, default=600.0)
    parser.add_argument("--skip-s", type=float, default=600.0, help="that are not compared")
    parser.add_argument("--cpus", type=int, default=4, help="that Ray is told of")
    return parser


if __name__ == "__main__":
    sys.exit(main())
