"""A line of the table: what was measured, and what it takes of the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import _measure

Run = dict[str, Any]
"""What was measured once; one with `failed` or `skipped`, the reason, has no figures."""
TITLES = ("part, what", "speed", "an epoch or step", "GPU memory", "GPU-Util", "data wait")


@dataclass(frozen=True, kw_only=True)
class Line:
    """Medians over the repeats; None is what was not measured, or has no meaning here."""

    what: str
    speed: float | None = None
    unit: str = ""
    """Of the speed, such as images/s."""
    time_s: float | None = None
    """Of an epoch, or of a step."""
    memory_gb: float | None = None
    """At its peak."""
    gpu_util_pct: float | None = None
    data_wait_pct: float | None = None

    def cells(self, part: str) -> tuple[str, ...]:
        """As TITLES names them."""
        return (
            f"{part}  {self.what}",
            "-" if self.speed is None else f"{_digits(self.speed)} {self.unit}",
            "-" if self.time_s is None else _time(self.time_s),
            "-" if self.memory_gb is None else f"{self.memory_gb:.2f} GB",
            "-" if self.gpu_util_pct is None else f"{self.gpu_util_pct:.0f} %",
            "-" if self.data_wait_pct is None else f"{self.data_wait_pct:.1f} %",
        )


def median_of(runs: Sequence[Run], name: str) -> float | None:
    """Over the runs that have this figure."""
    return _measure.median([run[name] for run in runs if run.get(name) is not None])


def grouped(runs: Sequence[Run], names: Sequence[str], line: Callable[[Sequence[Run]], Line]) -> list[Line]:
    """A line for all repeats of the same thing, in the order of the first; none for what only failed."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        if not {"failed", "skipped"} & run.keys():
            groups.setdefault(tuple(run.get(name) for name in names), []).append(run)
    return [line(group) for group in groups.values()]


def of(runs: Sequence[Run], **what: Any) -> list[Run]:
    """Those of these values that have figures."""
    return [run for run in runs if not {"failed", "skipped"} & run.keys() and _has(run, what)]


def why_missing(run: Run) -> str:
    """Why a run has no figures, in a line."""
    return str(run.get("failed") or run.get("skipped")).splitlines()[0].rstrip(".: ")[:200]


def _has(run: Run, what: Mapping[str, Any]) -> bool:
    return all(run.get(name) == value for name, value in what.items())


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
