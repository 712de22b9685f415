"""The page *Sweeps*: all sweeps in a table, filtered and sorted by the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from sweeps.common.formatting import rough
from sweeps.page.page_context import context_of
from sweeps.page.sweep_list import ListedSweep

CURVE_WIDTH, CURVE_HEIGHT = 120, 30
"""Of the small curve, in pixels."""


@dataclass(frozen=True)
class Column:
    """A column, and how sweeps are sorted by it."""

    name: str
    title: str
    key: Callable[[ListedSweep], Any]
    """None of a sweep that has no value there: those are last."""
    begins_high: bool = False
    """Whether the first click sorts the greatest first."""


def _of(name: str) -> Callable[[ListedSweep], Any]:
    """A field of the summary."""
    return lambda sweep: None if sweep.summary is None else getattr(sweep.summary, name)


def _progress(sweep: ListedSweep) -> float | None:
    return None if sweep.summary is None else sweep.summary.ended / max(1, sweep.summary.planned)


COLUMNS = {
    each.name: each
    for each in (
        Column("name", "Name", lambda sweep: sweep.name.casefold()),
        Column("model", "Model", _of("trainable")),
        Column("status", "Status", lambda sweep: sweep.status),
        Column("trials", "Trials", _progress, True),
        Column("epochs", "Epochs", _of("epochs"), True),
        Column("best", "Best", _of("best_score"), True),
        Column("left", "Time left", _of("ends")),
        Column("pcs", "PCs", lambda sweep: ", ".join(sweep.summary.places) if sweep.summary else None),
        Column("started", "Started", _of("started"), True),
    )
}
DEFAULT_SORT = "-started"


@dataclass(frozen=True)
class View:
    """Which sweeps are shown, and in which order, as the address of the page says."""

    text: str = ""
    status: str = ""
    sort: str = DEFAULT_SORT

    @classmethod
    def asked(cls, query: Mapping[str, str]) -> View:
        """By the parameters of an address; words that mean nothing count as not given."""
        sort = query.get("sort", "")
        known = sort.removeprefix("-") in COLUMNS
        return cls(query.get("text", "").strip(), query.get("status", ""), sort if known else DEFAULT_SORT)

    def of(self, sweeps: Sequence[ListedSweep]) -> list[ListedSweep]:
        """Those of these sweeps, in order."""
        words = self.text.casefold().split()
        found = [
            sweep
            for sweep in sweeps
            if (not self.status or sweep.status == self.status)
            and all(word in _searched(sweep) for word in words)
        ]
        column, is_down = COLUMNS[self.sort.removeprefix("-")], self.sort.startswith("-")
        known = [sweep for sweep in found if column.key(sweep) is not None]
        known.sort(key=column.key, reverse=is_down)
        return known + [sweep for sweep in found if column.key(sweep) is None]

    def sort_by(self, column: Column) -> str:
        """What a click on the title of a column asks for."""
        if self.sort.removeprefix("-") == column.name:
            return column.name if self.sort.startswith("-") else f"-{column.name}"
        return f"-{column.name}" if column.begins_high else column.name

    def aria_sort(self, column: Column) -> str:
        """How the table is sorted by a column, as a screen reader says it; "" where it is not."""
        if self.sort.removeprefix("-") != column.name:
            return ""
        return "descending" if self.sort.startswith("-") else "ascending"


def _searched(sweep: ListedSweep) -> str:
    model = sweep.summary.trainable if sweep.summary is not None else ""
    return f"{sweep.name} {sweep.folder.name} {model}".casefold()


async def show(request: web.Request) -> web.Response:
    """The page, or its table alone."""
    page = context_of(request)
    await page.look()
    sweeps, view = [*page.sweeps.sweeps.values()], View.asked(request.query)
    return page.html(
        request,
        "sweeps.html",
        sweeps=sweeps,
        shown=view.of(sweeps),
        view=view,
        columns=COLUMNS.values(),
        statuses=sorted({sweep.status for sweep in sweeps}),
        curve_of=curve_of,
        left=left,
        since=since,
    )


async def events(request: web.Request) -> web.StreamResponse:
    """Tell it that a sweep has changed."""
    page = context_of(request)
    return await page.stream(request, lambda: {"changed": page.sweeps.version})


def curve_of(points: Sequence[tuple[float, float]]) -> str:
    """The points of a line with a step wherever the best so far got better, for SVG."""
    if not points:
        return ""
    scores = [score for _, score in points]
    first, last, low, high = points[0][0], points[-1][0], min(scores), max(scores)

    def x(at: float) -> float:
        return 2 + (CURVE_WIDTH - 4) * (at - first) / ((last - first) or 1)

    def y(score: float) -> float:
        return CURVE_HEIGHT - 3 - (CURVE_HEIGHT - 6) * (score - low) / ((high - low) or 1)

    found = [(x(points[0][0]), y(scores[0]))]
    for at, score in points[1:]:
        found += [(x(at), found[-1][1]), (x(at), y(score))]
    return " ".join(f"{left:.1f},{down:.1f}" for left, down in found)


def left(ends: float | None) -> str:
    """`about 12 min` until a sweep ends; "" where that is not known."""
    return "" if ends is None else f"about {rough(max(0.0, ends - time.time()))}"


def since(started: float | None) -> str:
    """`2026-01-31 14:05`"""
    return "" if started is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(started))


ROUTES = [web.get("/", show), web.get("/events/sweeps", events)]
