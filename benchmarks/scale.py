"""What a trial costs when its training costs nothing: `python -m benchmarks.scale`

100, 1,000 and 10,000 trials of a model with one parameter and one batch, 1 or 2 epochs each, two at a time,
through the whole program: its command line, warm processes, the record, the screen. Points are drawn at
random; the scheduler is asha, or the default, which pauses trials and thus saves checkpoints. The floor is
the same number of Lightning's `fit()` in 2 plain processes. After the sweeps of a size Ray Tune with nothing
around it, which has ASHA, trains as many trials (`_bare_tune.py`).

trials/s counts from the moment that 10 % of the trials have ended (all is warm by then) to the last end;
`whole` from the start of the process to its exit. Memory is what the driver's process grew by over the
same stretch, per trial that ended. CPU is that of the whole machine over the same stretch, per trial that
ended; a trial's own is what goes beyond that of the floor. Both have what is imported meanwhile for the
report, once per sweep: of 100 trials that is most of it, so their goals count from 1,000 trials on.

`tables` is the share of the driver's time in which it writes `trials.parquet` and `epochs.parquet`: measured
in these sweeps; and, of a record as most sweeps have it (8 hyperparameters, 5 metrics, costs, halving from 3
to 27 epochs), from the time of a writing and the pause that the driver then makes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks import _measure
from benchmarks._driver_costs import WORKERS, driver_costs, usual_tables
from benchmarks._measure import Goal
from benchmarks._scale_runs import Run, bare_tune, beside, floor, one_sweep

MOST_TRIALS = 10_000

WAYS = ("asha", "halving")
"""Schedulers. Ray Tune alone has the first, a sweep without flags the last."""
WARM_TRIALS = 1_000
"""So many of them pay little of what is paid once per sweep."""

RATES = {
    "trials/s": ("trials_per_s", 1),
    "bare Tune": ("bare", 1),
    "ratio": ("to_bare", 2),
    "last tenth": ("trials_per_s_of_last_tenth", 1),
    "bare's": ("bare_of_last_tenth", 1),
    "whole s": ("whole_s", 1),
    "whole trials/s": ("whole_trials_per_s", 1),
    "CPU ms": ("cpu_ms_per_trial", 0),
    "own CPU ms": ("own_cpu_ms", 0),
    "KB per trial": ("kb_per_trial", 1),
    "driver MB": ("driver_mb", 0),
    "tables %": ("tables_percent", 2),
}
"""Title of a column to a figure and its digits."""


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    runs: list[Run] = []
    floors: list[Run] = []
    for repeat in range(asked.repeats):
        floors.append(floor())
        print(
            f"floor, repeat {repeat + 1}: {floors[-1]['fits_per_s']:.1f} fits/s in {WORKERS} processes",
            flush=True,
        )
        for trials in asked.trials:
            sweeps = [one_sweep(trials, way) for way in _measure.in_turn(WAYS, repeat)]
            bare = bare_tune(trials)
            for sweep in sweeps:
                runs.append({"repeat": repeat, **sweep, **beside(sweep, bare, floors[-1])})
                print(f"{trials} trials, repeat {repeat + 1}: {_words(runs[-1])}", flush=True)
    costs = [driver_costs(trials) for trials in asked.told]
    usual = [usual_tables(trials) for trials in asked.trials]
    medians = summary(runs)
    print(describe(medians, costs, floors, usual), flush=True)
    content = {"runs": runs, "floors": floors, "medians": medians, "driver_costs": costs, "usual": usual}
    _measure.write("scale", content, goals(medians, usual))
    return 0


def summary(runs: Sequence[Run]) -> list[Run]:
    """Medians by size and scheduler."""
    groups: dict[tuple[int, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run["trials"], run["scheduler"]), []).append(run)
    return [
        {
            "trials": trials,
            "scheduler": scheduler,
            **{
                key: _measure.median([run[key] for run in group])
                for key in group[0]
                if key not in ("repeat", "trials", "scheduler")
            },
        }
        for (trials, scheduler), group in sorted(groups.items())
    ]


def describe(
    medians: Sequence[Run], costs: Sequence[Run], floors: Sequence[Run], usual: Sequence[Run]
) -> str:
    rates = _measure.table(
        ("trials", *RATES),
        [
            (
                f"{row['trials']:,} {row['scheduler']}",
                *(_measure.number(row[key], digits) for key, digits in RATES.values()),
            )
            for row in medians
        ],
    )
    told = ("record_ms_per_trial", "random_ms", "tpe_ms", "gp_ms", "tables_ms")
    driver = _measure.table(
        ("trials known", "record ms/trial", "random ms/proposal", "tpe", "gp", "tables ms"),
        [(f"{row['trials']:,}", *(_measure.number(row[name], 1) for name in told)) for row in costs],
    )
    rate, cpu = (_measure.median([each[key] for each in floors]) for key in ("fits_per_s", "cpu_ms_per_fit"))
    tables = _measure.table(
        ("trials of a usual sweep", "tables ms", "tables %"),
        [(f"{row['trials']:,}", f"{row['tables_ms']:.0f}", f"{row['tables_percent']:.2f}") for row in usual],
    )
    shown = (_measure.number(rate, 1), _measure.number(cpu, 1))
    floor = f"floor: {shown[0]} fits/s in {WORKERS} plain processes, {shown[1]} ms of CPU each"
    return f"{rates}\n\n{floor}\n\n{driver}\n\n{tables}\n"


def goals(medians: Sequence[Run], usual: Sequence[Run] = ()) -> list[Goal]:
    """The worst size counts; flat: the largest of all sizes against the smallest."""
    shares = [row["tables_percent"] for row in (*medians, *usual) if row["trials"] == MOST_TRIALS]
    warm = [row for row in medians if row["trials"] >= WARM_TRIALS]
    return [
        *(
            goal
            for way in WAYS
            for goal in _rate_goals(way, [row for row in medians if row["scheduler"] == way])
        ),
        Goal("own_cpu_ms", max((row["own_cpu_ms"] for row in warm), default=None), "<=", 60.0),
        Goal("kb_per_trial", max((row["kb_per_trial"] for row in warm), default=None), "<=", 20.0),
        Goal("tables_percent", max(shares, default=None), "<=", 1.0),
    ]


def _rate_goals(way: str, medians: Sequence[Run]) -> list[Goal]:
    rates = [row["trials_per_s"] for row in medians]
    spread = None if len(rates) < 2 else 100 * (max(rates) - min(rates)) / max(rates)
    return [
        Goal(f"to_bare_tune_{way}", min((row["to_bare"] for row in medians), default=None), ">=", 0.8),
        Goal(f"flat_percent_{way}", spread, "<=", 20.0),
    ]


def _words(run: Run) -> str:
    return (
        f"{run['scheduler']} {run['trials_per_s']:.1f} trials/s ({run['to_bare']:.2f} of bare Tune), "
        f"whole {run['whole_s']:.1f} s, own CPU {run['own_cpu_ms']:.0f} ms and {run['kb_per_trial']:.1f} KB "
        f"a trial ({run['busy_before']:.1f} cores busy before)"
    )


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
