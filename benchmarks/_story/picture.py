"""docs/images/story.svg: what is left of 713 days, rung by rung, on a log scale.

The thesis from which this program grew reports 713 and 33 days, on other hardware, for another model. A rung
is drawn as the share of the naive time that it takes, in days out of these 713. Its own time stands beside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import _svg
from benchmarks._svg import EDGE, FAINT, OTHER, OWN, TEXT
from sweeps.common.formatting import count, duration

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "story.svg"
THESIS_DAYS = (713.0, 33.0)
"""As its author reports them: 32 models for 50 epochs on one GPU, and after all that made it faster."""
TITLE = "32 configurations for 50 epochs: what is left of 713 days"
SUBTITLE = "Days on a log scale; less is better. Lines: 95 % intervals. Hatched: computed from some epochs."
WIDTH, LEFT, LENGTH = 830, 292, 296
TOP, PITCH, THICKNESS, GAP = 84, 27, 16, 34
LEAST_DAYS = 0.1
"""Where the axis begins, if no bar is shorter."""
HATCHED = {OWN: "computed", OTHER: "computed-of-others"}


class Bar(NamedTuple):
    """A row of the chart."""

    title: str
    days: float
    low: float
    high: float
    beside: str
    color: str
    is_computed: bool = False


def write(workloads: Mapping[str, Mapping[str, Any]], path: Path = PICTURE) -> None:
    """Draw all workloads that were measured."""
    path.write_text(picture(workloads))


def picture(workloads: Mapping[str, Mapping[str, Any]]) -> str:
    """The chart as SVG."""
    groups = [("As the thesis reports it (RTX 2080 Ti, face videos)", thesis())]
    for name, workload in workloads.items():
        machine = workload["machine"]
        where = f"{count(machine['cores'], 'core')} of {_short_cpu(machine['cpu'])}, {workload['date']}"
        groups.append((f"{name}, measured on {where}", bars(workload["rows"])))
    least = min(LEAST_DAYS, *(bar.low for _, found in groups for bar in found if bar.low > 0))
    begin, end = math.floor(math.log10(least)), 3.0
    lines, y = [_pattern(name, color) for color, name in HATCHED.items()], TOP

    def place(days: float) -> float:
        return LEFT + LENGTH * (math.log10(max(days, 10**begin)) - begin) / (end - begin)

    height = TOP + sum(GAP + PITCH * len(found) for _, found in groups) + 14
    for power in range(begin, int(end) + 1):
        x = place(10**power)
        lines.append(f'<path d="M{x:g} {TOP}V{height - 34}" stroke="{EDGE}"/>')
        label = f"{10**power:g}"
        lines.append(_svg.text(x - 3.5 * len(label), height - 16, label, FAINT))
    lines.append(_svg.text(32, height - 16, "days out of 713", FAINT))
    for title, found in groups:
        lines.append(_svg.text(20, y + 14, title, weight=600))
        y += GAP - 8
        for bar in found:
            lines += _row(bar, y, place)
            y += PITCH
        y += 8
    return _svg.chart(WIDTH, height, TITLE, SUBTITLE, lines)


def thesis() -> list[Bar]:
    titles = "at first", "with all that made it faster"
    return [Bar(t, d, d, d, f"{d:g} days", OTHER) for t, d in zip(titles, THESIS_DAYS, strict=True)]


def bars(rows: Sequence[Mapping[str, Any]]) -> list[Bar]:
    """Of rungs and other programs, in days out of the thesis' 713."""
    naive_s = next(row["value_s"] for row in rows if row["rung"] == "naive")
    found = []
    for row in rows:
        days, low, high = (THESIS_DAYS[0] * row[key] / naive_s for key in ("value_s", "low_s", "high_s"))
        faster = row["times"][0]
        times = f" = 1/{faster:.{0 if faster >= 10 else 1}f}" if row["rung"] != "naive" else ""
        beside = f"{days:.3g} days{times}  ({duration(row['value_s'])} here)"
        color = OTHER if row["is_peer"] else OWN
        found.append(Bar(row["title"], days, low, high, beside, color, row["measured_pct"] < 100))
    return found


def _pattern(name: str, color: str) -> str:
    return (
        f'<defs><pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="6" height="6" fill="{color}"/>'
        '<rect width="2" height="6" fill="#ffffff" fill-opacity="0.45"/></pattern></defs>'
    )


def _row(bar: Bar, top: float, place: Any) -> list[str]:
    right = place(bar.days)
    fill = f"url(#{HATCHED[bar.color]})" if bar.is_computed else bar.color
    found = [
        _svg.text(32, top + THICKNESS - 4, bar.title, TEXT if bar.color != OTHER else FAINT),
        _svg.bar(LEFT, top, right - LEFT, THICKNESS, fill),
    ]
    if bar.low < bar.high:
        found.append(_svg.whisker(place(bar.low), place(bar.high), top + THICKNESS / 2))
    return [*found, _svg.text(max(right, place(bar.high)) + 8, top + THICKNESS - 4, bar.beside, FAINT)]


def _short_cpu(model: str) -> str:
    return " ".join(word for word in model.split() if not word.endswith("-Core") and word != "Processor")
