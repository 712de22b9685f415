"""A sweep of 24 small CNNs beside the same epochs without a sweep, and beside Ray Tune kept warm."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks import _measure
from benchmarks._gpu.line import Line, Run, grouped, median_of, of
from benchmarks._gpu.notes import Notes
from benchmarks._measure import Goal
from benchmarks.overhead import ARMS, Round

WORKERS = (4, 1)
"""Trials at a time."""
TRIALS = 24
MEASURED = ("f", "c")
"""Beside (a), this program: the Lightning floor, Ray Tune with reuse_actors."""
MOST_TO_FLOOR, LEAST_OF_RAY_TUNE = 1.8, 1.4
"""As on a CPU."""


def measure(notes: Notes) -> None:
    trials = 3 if notes.is_rehearsal else TRIALS
    for repeat in range(notes.repeats):
        for workers in (2,) if notes.is_rehearsal else WORKERS:
            with tempfile.TemporaryDirectory(prefix="gpu-overhead-") as base:
                accelerator = "cpu" if notes.is_rehearsal else "gpu"
                round_ = Round("cnn", trials, repeat, Path(base), workers, accelerator)
                for arm in ("a", *_measure.in_turn(MEASURED, repeat)):
                    what = {"arm": arm, "workers": workers, "repeat": repeat}
                    if not notes.measure(what, partial(round_.run, arm)) and arm == "a":
                        break  # the others train what it has trained


def lines(runs: Sequence[Run]) -> list[Line]:
    def line(group: Sequence[Run]) -> Line:
        s_per_epoch = median_of(group, "s_per_epoch")
        return Line(
            what=f"{ARMS[group[0]['arm']]}, {group[0]['workers']} at a time",
            speed=1 / s_per_epoch if s_per_epoch else None,
            unit="epochs/s",
            time_s=s_per_epoch,
        )

    return grouped(sorted(runs, key=lambda run: -run["workers"]), ("workers", "arm"), line)


def goals(runs: Sequence[Run]) -> list[Goal]:
    found = []
    for workers in WORKERS:
        name = f"{workers}_at_a_time"
        found.append(Goal(f"overhead_24_{name}", _ratio(runs, workers, "a", "f"), "<=", MOST_TO_FLOOR))
        ours = _ratio(runs, workers, "c", "a")
        found.append(Goal(f"ray_tune_reuse_24_{name}", ours, ">=", LEAST_OF_RAY_TUNE))
    return found


def remarks(runs: Sequence[Run]) -> list[str]:
    """What both goals are about includes the start: a sweep of seconds is mostly that."""
    wall_s = median_of(of(runs, arm="a"), "wall_s")
    return [] if wall_s is None else [f"The sweep takes {wall_s:.0f} s from its start to its exit, in fp32."]


def _ratio(runs: Sequence[Run], workers: int, above: str, below: str) -> float | None:
    """Median over the repeats that have both, of the times per epoch."""
    found = []
    for one in of(runs, arm=below, workers=workers):
        others = of(runs, arm=above, workers=workers, repeat=one["repeat"])
        found += [other["s_per_epoch"] / one["s_per_epoch"] for other in others]
    return _measure.median(found)
