"""How well the time left is told: `python -m benchmarks.time_left`

Looks at recorded sweeps when 10, 25, 50 and 75 % of them have passed, with what their record held then, and
compares the time left with the truth. A look holds the truth where it is in the range.

Sweeps are of two sets, which share no seed and no curve. The constants of `sweeps/analysis/` were chosen on
`fit`; nothing was chosen on `check`, whose figures are the goals. Each set has sweeps of three kinds: long
and short ones by the clock of `benchmarks.search` (real searchers and schedulers; `_simulated.py` says how
long the trials take), and real ones, whose records are in `data/recorded_sweeps.json.gz`. A short sweep may
report its first epoch only after 10 % of its time: such a look has no range, and is counted by itself.

Real sweeps are `busy` where the first epoch came later than after 20 s: other programs used the same cores,
and their load changed during the sweep. The goals leave these out; the table has them.

`--add FOLDER` puts finished sweeps into that file.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import statistics
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import _measure
from benchmarks._measure import Goal

if TYPE_CHECKING:
    from benchmarks._recorded import Recorded

SHARES = (10, 25, 50, 75)
"""Percent of a sweep."""
WIDEST = {10: 3.0, 25: 2.0, 50: 1.5, 75: 1.5}
COUNTS = {"long": 80, "short": 40}
HELD = 0.8


@dataclass(frozen=True)
class Look:
    """A look at a sweep."""

    sweep: str
    kind: str
    scheduler: str
    share: int
    """Percent of the sweep."""
    truth_s: float
    best_s: float | None
    """None before the first epoch."""
    low_s: float = math.nan
    high_s: float = math.nan

    @property
    def is_held(self) -> bool:
        """Whether the range holds the truth."""
        return self.low_s <= self.truth_s <= self.high_s

    @property
    def error(self) -> float:
        """Of the best guess, relative to the truth."""
        assert self.best_s is not None
        return abs(self.best_s / self.truth_s - 1)


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    _quiet()
    if asked.add:
        return _add(asked)
    rows: list[dict[str, Any]] = []
    for of_set in asked.sets:
        sweeps = _sweeps(of_set, dict(asked.counts), asked.kept)
        looks = [look for sweep in sweeps for look in look_at(sweep)]
        rows += [row for group, part in _groups(looks) for row in summary(of_set, group, part)]
    print(describe(rows), flush=True)
    _measure.write("time_left", {"summary": rows}, goals(rows))
    return 0


def look_at(sweep: Recorded) -> list[Look]:
    """The looks at a sweep."""
    from benchmarks._recorded import Past
    from sweeps.analysis.standing import Ahead
    from sweeps.analysis.time_left import time_left
    from sweeps.search import cohorts

    found = []
    ahead_of_all = cohorts.of(sweep.scheduler, sweep.config, [sweep.settings["num_trials"]])
    for share in SHARES:
        moment = sweep.total_s * share / 100
        past = Past(sweep, moment)
        ahead = Ahead(ahead_of_all, sweep.slots, past.waits(sweep), sweep.is_scored)
        left, truth_s = time_left(past, ahead, moment, moment), sweep.total_s - moment
        of_sweep = (sweep.name, sweep.kind, str(sweep.settings["scheduler"]), share, truth_s)
        found.append(
            Look(*of_sweep, None) if left is None else Look(*of_sweep, left.best_s, left.low_s, left.high_s)
        )
    return found


def summary(of_set: str, group: str, looks: Sequence[Look]) -> list[dict[str, Any]]:
    """Of each share: how many looks, how many of them with a range, and how good these are."""
    rows = []
    for share in SHARES:
        there = [look for look in looks if look.share == share]
        told = [look for look in there if look.best_s is not None]
        rows.append(
            {
                "set": of_set,
                "group": group,
                "share": share,
                "looks": len(there),
                "without_range": len(there) - len(told),
                "coverage": statistics.fmean(look.is_held for look in told) if told else None,
                "median_error": statistics.median(look.error for look in told) if told else None,
                "median_ratio": statistics.median(look.high_s / look.low_s for look in told)
                if told
                else None,
                "widest_ratio": max((look.high_s / look.low_s for look in told), default=None),
            }
        )
    return rows


def describe(rows: Sequence[dict[str, Any]]) -> str:
    """A table."""
    titles = (
        "set",
        "sweeps",
        "at",
        "looks",
        "no range",
        "held",
        "median error",
        "median ratio",
        "widest ratio",
    )
    cells = [
        (
            row["set"], row["group"], f"{row['share']} %", str(row["looks"]), str(row["without_range"]),
            _percent(row["coverage"]), _percent(row["median_error"]), _measure.number(row["median_ratio"]),
            _measure.number(row["widest_ratio"]),
        )
        for row in rows
    ]  # fmt: skip
    return _measure.table(titles, cells)


def goals(rows: Sequence[dict[str, Any]]) -> list[Goal]:
    """By the set on which nothing was chosen, without busy machines."""
    of_check = {row["share"]: row for row in rows if (row["set"], row["group"]) == ("check", "all")}
    found = []
    for share in SHARES:
        row = of_check.get(share, {"coverage": None, "widest_ratio": None})
        ratio = row["widest_ratio"]
        found.append(Goal(f"coverage_{share}", row["coverage"], ">=", HELD))
        found.append(Goal(f"ratio_{share}", None if ratio is None else round(ratio, 6), "<=", WIDEST[share]))
    return found


def _groups(looks: Sequence[Look]) -> Iterator[tuple[str, Sequence[Look]]]:
    from benchmarks import _recorded

    yield "all", [look for look in looks if look.kind != _recorded.BUSY]
    for name in sorted({look.kind for look in looks}):
        yield name, [look for look in looks if look.kind == name]
    for name in sorted({look.scheduler for look in looks}):
        yield name, [look for look in looks if look.scheduler == name and look.kind != _recorded.BUSY]


def _sweeps(of_set: str, counts: dict[str, int], kept: Path | None) -> list[Recorded]:
    """The real sweeps of a set, and the simulated ones, which are kept for another time."""
    from benchmarks import _recorded

    real = _recorded.load().get(of_set, []) if _recorded.FILE.is_file() else []
    file = None if kept is None else kept / f"{of_set}.json.gz"
    if file is not None and file.is_file():
        return real + _recorded.load(file)[of_set]
    simulated = list(_simulate(of_set, counts))
    if file is not None:
        _recorded.save({of_set: simulated}, file)
    return real + simulated


def _simulate(of_set: str, counts: dict[str, int]) -> Iterator[Recorded]:
    from benchmarks import _simulated

    for kind, count in counts.items():
        for nth, asked in enumerate(_simulated.asked(of_set, kind, count), start=1):
            yield _simulated.run(asked)
            if nth % 10 == 0 or nth == count:
                print(f"{of_set}: {nth} of {count} {kind} sweeps", flush=True)


def _add(asked: argparse.Namespace) -> int:
    from benchmarks import _recorded

    sets = _recorded.load() if _recorded.FILE.is_file() else {}
    for folder in asked.add:
        sweep = _recorded.of_folder(folder, asked.slots)
        of_set = sets.setdefault(asked.to, [])
        of_set[:] = [other for other in of_set if other.name != sweep.name] + [sweep]
    _recorded.save(sets)
    size_kb = _recorded.FILE.stat().st_size / 1000
    print(f"{_recorded.FILE.name}: {sum(map(len, sets.values()))} sweeps, {size_kb:,.0f} kB")
    return 0


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _quiet() -> None:
    """What Ray reads when it is imported, and the libraries' chatter."""
    from sweeps.cluster import ray_environment

    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    ray_environment.prepare_environment()
    warnings.simplefilter("ignore", FutureWarning)
    for name in ("hpbandster", "ray.tune"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _count(text: str) -> tuple[str, int]:
    kind, _, count = text.partition("=")
    if kind not in COUNTS or not count.isdigit():
        raise argparse.ArgumentTypeError(f"{text}: give long=N or short=N")
    return kind, int(count)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.time_left",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sets = ["fit", "check"]
    parser.add_argument("--sets", nargs="+", choices=sets, default=sets)
    parser.add_argument(
        "--counts",
        nargs="+",
        type=_count,
        default=list(COUNTS.items()),
        metavar="KIND=N",
        help="simulated sweeps of a set (default: long=80 short=40)",
    )
    parser.add_argument("--kept", type=Path, metavar="FOLDER", help="where simulated sweeps are kept")
    parser.add_argument("--add", nargs="+", type=Path, metavar="FOLDER", help="sweeps to put into the file")
    parser.add_argument("--to", choices=sets, default="fit", help="with --add: their set (default: fit)")
    parser.add_argument("--slots", type=int, default=1, help="with --add: trials at a time (default: 1)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
