"""What a trial costs when its training costs nothing: `python -m benchmarks.scale`

100, 1,000 and 10,000 trials of a model with one parameter and one batch, 1 or 2 epochs each (ASHA), two
at a time, through the whole program: its command line, warm processes, the record, the screen. The floor
is the same number of Lightning's `fit()` in 2 plain processes. After each sweep Ray Tune with nothing around
it trains as many trials (`_bare_tune.py`).

trials/s counts from the moment that 10 % of the trials have ended (all is warm by then) to the last end;
`whole` from the start of the process to its exit. Memory is what the driver's process grew by over the
same stretch, per trial that ended.

`tables` is the share of the driver's time in which it writes `trials.parquet` and `epochs.parquet`: measured
in these sweeps; and, of a record as most sweeps have it (8 hyperparameters, 5 metrics, costs, halving from 3
to 27 epochs), from the time of a writing and the pause that the driver then makes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import _measure
from benchmarks._driver_costs import EPOCHS, SPACE, TRAINABLE, WORKERS, driver_costs, usual_tables
from benchmarks._job import Job
from benchmarks._measure import Goal

FLOOR_TRIALS, MOST_TRIALS = 400, 10_000

RATES = {
    "trials/s": ("trials_per_s", 1),
    "bare Tune": ("bare", 1),
    "ratio": ("to_bare", 2),
    "in the last tenth": ("trials_per_s_of_last_tenth", 1),
    "whole s": ("whole_s", 1),
    "whole trials/s": ("whole_trials_per_s", 1),
    "KB per trial": ("kb_per_trial", 1),
    "driver MB": ("driver_mb", 0),
    "tables %": ("tables_percent", 2),
}
"""Title of a column to a figure and its digits."""
Run = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    runs: list[Run] = []
    floors: list[float] = []
    for repeat in range(asked.repeats):
        floors.append(floor_trials_per_s())
        print(f"floor, repeat {repeat + 1}: {floors[-1]:.1f} fits/s in {WORKERS} processes", flush=True)
        for trials in asked.trials:
            run = {
                "repeat": repeat,
                **one_sweep(trials),
                "bare": bare_trials_per_s(trials),
            }
            runs.append({**run, "to_bare": run["trials_per_s"] / run["bare"]})
            print(f"{trials} trials, repeat {repeat + 1}: {_words(runs[-1])}", flush=True)
    costs = [driver_costs(trials) for trials in asked.told]
    usual = [usual_tables(trials) for trials in asked.trials]
    medians = summary(runs)
    print(describe(medians, costs, floors, usual), flush=True)
    content = {"runs": runs, "floors": floors, "medians": medians, "driver_costs": costs, "usual": usual}
    _measure.write("scale", content, goals(medians, usual))
    return 0


def one_sweep(trials: int) -> Run:
    """A whole sweep, watched from outside and read from its record."""
    from sweeps.record.record import Record

    busy = _measure.busy_cores()
    with tempfile.TemporaryDirectory(prefix="scale-") as base:
        flags = {
            "trainable": TRAINABLE, "search-space": SPACE, "searcher": "random", "num-trials": trials,
            "max-epochs": EPOCHS, "grace-epochs": 1, "reduction-factor": 3, "max-concurrent": WORKERS,
            "cpus-per-trial": 1, "results-dir": base, "name": "sweep",
        }  # fmt: skip
        words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        spent = Path(base) / "tables.json"
        command = [sys.executable, "-m", "benchmarks._timed_sweep", str(spent), *words, "--no-ray-dashboard"]
        began, sizes = time.perf_counter(), []
        with (Path(base) / "output.log").open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            while process.poll() is None:
                sizes.append((time.time(), _rss_mb(process.pid)))
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
        "epochs": epochs,
        "busy_before": round(busy, 2),
        "tables_percent": 100 * tables_s / whole_s,
        **figures(ends, sizes, whole_s),
    }


def figures(ends: Sequence[float], sizes: Sequence[tuple[float, float]], whole_s: float) -> Run:
    """Rates and growth, from when each trial ended (in order) and (time, MB of the driver)."""
    first = len(ends) // 10
    later = ends[len(ends) - first - 1]
    return {
        "whole_s": round(whole_s, 2),
        "trials_per_s": (len(ends) - 1 - first) / (ends[-1] - ends[first]),
        "trials_per_s_of_last_tenth": first / (ends[-1] - later),
        "whole_trials_per_s": len(ends) / whole_s,
        "kb_per_trial": (_at(sizes, ends[-1]) - _at(sizes, ends[first])) * 1000 / (len(ends) - 1 - first),
        "driver_mb": round(max(size for _, size in sizes)),
    }


def bare_trials_per_s(trials: int) -> float:
    """Of Ray Tune alone, from when a tenth of the trials have ended to the last end, as of a sweep."""
    with tempfile.TemporaryDirectory(prefix="bare-tune-") as base:
        Job(
            model="trivial", trials=[], seed=0, epochs=[], max_epochs=EPOCHS, grace_epochs=1,
            reduction_factor=3, workers=WORKERS, folder=base,
        ).write()  # fmt: skip
        command = [sys.executable, "-m", "benchmarks._bare_tune", base, str(trials)]
        _measure.run_together([command], Path(base), {"OMP_NUM_THREADS": "1"})
        ends: list[float] = json.loads((Path(base) / "ended.json").read_text())
    first = len(ends) // 10
    return (len(ends) - 1 - first) / (ends[-1] - ends[first])


def floor_trials_per_s() -> float:
    """Lightning's `fit()` of the same model in plain processes, imports left out: a rate of all together."""
    with tempfile.TemporaryDirectory(prefix="scale-") as base:
        times = []
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
            wall_s, _ = _measure.run_together(commands, Path(base), {"OMP_NUM_THREADS": "1"})
            times.append(wall_s)
    return FLOOR_TRIALS / (times[1] - times[0])


def summary(runs: Sequence[Run]) -> list[Run]:
    keys = [key for key in runs[0] if key not in ("repeat", "trials")] if runs else []
    return [
        {
            "trials": trials,
            **{key: _measure.median([run[key] for run in runs if run["trials"] == trials]) for key in keys},
        }
        for trials in dict.fromkeys(run["trials"] for run in runs)
    ]


def describe(
    medians: Sequence[Run], costs: Sequence[Run], floors: Sequence[float], usual: Sequence[Run]
) -> str:
    rates = _measure.table(
        ("trials", *RATES),
        [
            (f"{row['trials']:,}", *(_measure.number(row[key], digits) for key, digits in RATES.values()))
            for row in medians
        ],
    )
    told = ("record_ms_per_trial", "random_ms", "tpe_ms", "gp_ms", "tables_ms")
    driver = _measure.table(
        ("trials known", "record ms/trial", "random ms/proposal", "tpe", "gp", "tables ms"),
        [(f"{row['trials']:,}", *(_measure.number(row[name], 1) for name in told)) for row in costs],
    )
    floor = _measure.number(_measure.median(floors), 1)
    tables = _measure.table(
        ("trials of a usual sweep", "tables ms", "tables %"),
        [(f"{row['trials']:,}", f"{row['tables_ms']:.0f}", f"{row['tables_percent']:.2f}") for row in usual],
    )
    floors_line = f"floor: {floor} fits/s in {WORKERS} plain processes"
    return f"{rates}\n\n{floors_line}\n\n{driver}\n\n{tables}\n"


def goals(medians: Sequence[Run], usual: Sequence[Run] = ()) -> list[Goal]:
    """The slowest size counts; flat: the largest of all sizes against the smallest."""
    shares = [row["tables_percent"] for row in (*medians, *usual) if row["trials"] == MOST_TRIALS]
    rates = [row["trials_per_s"] for row in medians]
    spread = None if len(rates) < 2 else 100 * (max(rates) - min(rates)) / max(rates)
    return [
        Goal("to_bare_tune", min((row["to_bare"] for row in medians), default=None), ">=", 0.8),
        Goal("flat_percent", spread, "<=", 20.0),
        Goal("kb_per_trial", max((row["kb_per_trial"] for row in medians), default=None), "<=", 20.0),
        Goal("tables_percent", max(shares, default=None), "<=", 1.0),
    ]


def _words(run: Run) -> str:
    return (
        f"{run['trials_per_s']:.1f} trials/s, whole {run['whole_s']:.1f} s, "
        f"{run['kb_per_trial']:.1f} KB a trial ({run['busy_before']:.1f} cores busy before)"
    )


def _at(sizes: Sequence[tuple[float, float]], moment: float) -> float:
    """The size that was taken last before a moment."""
    return next((size for when, size in reversed(sizes) if when <= moment), sizes[0][1])


def _rss_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS")), 0.0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--trials", type=int, nargs="+", default=[100, 1_000, MOST_TRIALS])
    parser.add_argument(
        "--told", type=int, nargs="*", default=[100, 1_000], help="trials known to a searcher"
    )
    parser.add_argument("--repeats", type=int, default=3)
    return parser


if __name__ == "__main__":
    sys.exit(main())
