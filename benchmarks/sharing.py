"""Whether sweeps that share a PC are fair: `python -m benchmarks.sharing`

2, 3 and 5 real sweeps begin at the same time on one Ray of this PC. Their trials are unequal: short and long
epochs, one CPU or two, and one sweep with twice the share of the others. Each trial only computes. A
sweep's processes are known by their environment, and looked at every 2 s (psutil). Two things are measured:

  CPU time  what the processes of its trials computed
  held      how long they were there, times their CPUs: as on a GPU, which a trial holds while it begins, too

Due is each sweep's share of the sum.

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
ENDS = ("least_off_percent", "most_off_percent")
Run = dict[str, Any]
Series = Mapping[str, Sequence[tuple[float, float]]]
"""By sweep, seconds since the start and what it has received by then: CPU seconds, or seconds held."""
TRAINS = "ray::ResourceTrainable"
"""With what the title of a process begins that has a trial's place."""


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
        series, held = together(kinds, asked.minutes * 60, asked.cpus)
        found = off_percent(kinds, series, asked.skip_s, asked.window_s)
        of_held = off_percent(kinds, held, asked.skip_s, asked.window_s)
        for row, other in zip(found, of_held, strict=True):
            row |= {f"held_{name}": other[name] for name in (*ENDS, "received_s")}
        cores = min(asked.cpus, len(os.sched_getaffinity(0)))
        received = received_percent(series, cores, asked.skip_s, asked.window_s)
        run = {"sweeps": number, "busy_before": round(busy, 2), "cores": cores, "kinds": found}
        runs.append({**run, "least_received_percent": received})
        print(describe(runs[-1:]), flush=True)
    content = {"minutes": asked.minutes, "window_s": asked.window_s, "skip_s": asked.skip_s, "runs": runs}
    _measure.write("sharing", content, goals(runs))
    return 0


def together(kinds: Sequence[Kind], seconds: float, cpus: int) -> tuple[Series, Series]:
    """Let sweeps run for a while on one Ray; what each received, and what it held."""
    series: dict[str, list[tuple[float, float]]] = {kind.name: [] for kind in kinds}
    held: dict[str, list[tuple[float, float]]] = {kind.name: [] for kind in kinds}
    with (
        tempfile.TemporaryDirectory(prefix="sharing-") as base,
        head(OPEN, offers=[f"--num-cpus={cpus}"]) as where,
    ):
        begun = [_begin(kind, Path(base, str(number)), where.address) for number, kind in enumerate(kinds)]
        try:
            meter, began = _Meter({str(Path(base, str(n))): k for n, k in enumerate(kinds)}), time.time()
            while (passed_s := time.time() - began) < seconds:
                for name, cpu_s in meter.read(passed_s).items():
                    series[name].append((passed_s, cpu_s))
                    held[name].append((passed_s, meter.held[name]))
                for kind, sweep, log in begun:
                    if sweep.poll() is not None:
                        raise RuntimeError(f"{kind.name} has ended:\n{log.read_text()[-3000:]}")
                time.sleep(EVERY_S)
        finally:
            for _, sweep, _ in begun:
                sweep.terminate()
            for _, sweep, _ in begun:
                sweep.wait(timeout=300)
    return series, held


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
    """CPU seconds of Ray's workers, ended ones included, and the seconds that they held places.

    Args:
        sweeps: by the folder of data in it.
    """

    def __init__(self, sweeps: Mapping[str, Kind]) -> None:
        self._sweeps = sweeps
        self._of: dict[tuple[int, float], tuple[Kind, float]] = {}
        self._read_at_s = 0.0
        self.held: dict[str, float] = dict.fromkeys((kind.name for kind in sweeps.values()), 0.0)
        """Seconds times CPUs, by name, up to the last look."""

    def read(self, passed_s: float) -> dict[str, float]:
        """CPU seconds by name, up to now."""
        since_s, self._read_at_s = passed_s - self._read_at_s, passed_s
        for process in psutil.process_iter():
            try:
                key, title = (process.pid, process.create_time()), process.cmdline()[0]
                if key not in self._of:
                    kind = self._sweeps.get(process.environ().get(DATA_DIR_VARIABLE, ""))
                    if kind is None or not title.startswith("ray::"):
                        continue
                    self._of[key] = kind, 0.0
                kind, times = self._of[key][0], process.cpu_times()
                self._of[key] = kind, times.user + times.system
                if title.startswith(TRAINS):
                    self.held[kind.name] += since_s * kind.cpus
            except (psutil.Error, IndexError):  # it has ended, or is another's
                continue
        totals = dict.fromkeys(self.held, 0.0)
        for kind, cpu_s in self._of.values():
            totals[kind.name] += cpu_s
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
                "received_s": series[kind.name][-1][1],
                "windows": len(off),
                "least_off_percent": min(off, default=None),
                "most_off_percent": max(off, default=None),
            }
        )
    return rows


def describe(runs: Sequence[Run]) -> str:
    """A table of what each sweep received, and the part of the cores' time that all did."""
    table = _measure.table(
        ("sweeps", "trials", "share", "due %", "CPU s", "off by %", "to %", "held s", "off by %", "to %"),
        [
            (
                str(run["sweeps"]),
                row["name"],
                f"{row['share']:g}",
                _measure.number(row["due_percent"], 1),
                *(
                    cell
                    for what in ("", "held_")
                    for cell in (
                        _measure.number(row[f"{what}received_s"], 0),
                        *(_measure.number(row[what + end], 1) for end in ENDS),
                    )
                ),
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
        for what in ("", "held_"):
            ends = [row[what + end] for row in run["kinds"] for end in ENDS]
            most = max((abs(value) for value in ends if value is not None), default=None)
            found.append(Goal(f"{what}off_percent_of_{run['sweeps']}_sweeps", most, "<=", GOAL_PERCENT))
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
