"""How well the time left is told: `python -m benchmarks.time_left`

Looks at recorded sweeps when 10, 25, 50 and 75 % of them have passed, with what their record held then, and
compares the time left with the truth. A look holds the truth where it is in the range. A short sweep may
report its first epoch only after 10 % of its time: such a look has no range, and is counted by itself.

The sweeps are real ones, whose records are in `data/recorded_sweeps.json.gz`. They are `busy` where the first
epoch came later than after 20 s: other programs used the same cores, and their load changed during the sweep.

`--add FOLDER` puts finished sweeps into that file.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
import sys
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
MOST_ERROR = 0.5
"""Of the best guess at half of the looks, from 25 % on."""


@dataclass(frozen=True)
class Look:
    """A look at a sweep."""

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
    if asked.add:
        return _add(asked)
    from benchmarks import _recorded

    looks = [look for sweep in _recorded.load() for look in look_at(sweep)]
    rows = [row for group, part in _groups(looks) for row in summary(group, part)]
    print(describe(rows), flush=True)
    _measure.write("time_left", {"summary": rows}, goals(rows))
    return 0


def look_at(sweep: Recorded) -> list[Look]:
    """The looks at a sweep."""
    from benchmarks._recorded import Past
    from sweeps.execution.output.time_left import time_left

    found = []
    ahead = sweep.scheduler.cohorts(sweep.config, [sweep.settings["num_trials"]])
    for share in SHARES:
        moment = sweep.total_s * share / 100
        left = time_left(Past(sweep, moment), ahead, sweep.slots, 0.0, moment)
        look = Look(sweep.kind, str(sweep.settings["scheduler"]), share, sweep.total_s - moment, None)
        if left is not None:
            look = dataclasses.replace(look, best_s=left.best_s, low_s=left.low_s, high_s=left.high_s)
        found.append(look)
    return found


def summary(group: str, looks: Sequence[Look]) -> list[dict[str, Any]]:
    """Of each share: how many looks, how many of them with a range, and how good these are."""
    rows = []
    for share in SHARES:
        there = [look for look in looks if look.share == share]
        told = [look for look in there if look.best_s is not None]
        rows.append(
            {
                "group": group,
                "share": share,
                "looks": len(there),
                "without_range": len(there) - len(told),
                "coverage": statistics.fmean(look.is_held for look in told) if told else None,
                "median_error": _measure.median([look.error for look in told]),
                "median_ratio": _measure.median([look.high_s / look.low_s for look in told]),
            }
        )
    return rows


def describe(rows: Sequence[dict[str, Any]]) -> str:
    """A table."""
    titles = ("sweeps", "at", "looks", "no range", "held", "median error", "median ratio")
    cells = [
        (
            row["group"], f"{row['share']} %", str(row["looks"]), str(row["without_range"]),
            _percent(row["coverage"]), _percent(row["median_error"]), _measure.number(row["median_ratio"]),
        )
        for row in rows
    ]  # fmt: skip
    return _measure.table(titles, cells)


def goals(rows: Sequence[dict[str, Any]]) -> list[Goal]:
    """Of all sweeps."""
    errors = {row["share"]: row["median_error"] for row in rows if row["group"] == "all"}
    return [Goal(f"error_{share}", errors.get(share), "<=", MOST_ERROR) for share in SHARES[1:]]


def _groups(looks: Sequence[Look]) -> Iterator[tuple[str, Sequence[Look]]]:
    yield "all", looks
    for name in sorted({look.kind for look in looks}):
        yield name, [look for look in looks if look.kind == name]
    for name in sorted({look.scheduler for look in looks}):
        yield name, [look for look in looks if look.scheduler == name]


def _add(asked: argparse.Namespace) -> int:
    from benchmarks import _recorded

    sweeps = {sweep.name: sweep for sweep in _recorded.load()}
    for folder in asked.add:
        sweeps[folder.name] = _recorded.of_folder(folder, asked.slots)
    _recorded.save(sweeps.values())
    print(f"{_recorded.FILE.name}: {len(sweeps)} sweeps, {_recorded.FILE.stat().st_size / 1000:,.0f} kB")
    return 0


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.time_left",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--add", nargs="+", type=Path, metavar="FOLDER", help="sweeps to put into the file")
    parser.add_argument("--slots", type=int, default=1, help="with --add: trials at a time (default: 1)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
