"""The page *Sweeps*: all sweeps in a table, filtered and sorted by the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web

from sweeps.common.formatting import rough
from sweeps.page.page_context import context_of
from sweeps.page.sweep_list import ListedSweep
from sweeps.page.table_view import Column, Frame, TableView

CURVE_PIXELS = (120, 30)
"""Width and height of the small curve."""


def _of(name: str) -> Callable[[ListedSweep], Any]:
    """A field of the summary."""
    return lambda sweep: None if sweep.summary is None else getattr(sweep.summary, name)


def _progress(sweep: ListedSweep) -> float | None:
    return None if sweep.summary is None else sweep.summary.ended / max(1, sweep.summary.planned)


def _pcs(sweep: ListedSweep) -> str | None:
    return (", ".join(sweep.summary.places) or None) if sweep.summary is not None else None


COLUMNS: Sequence[Column[ListedSweep]] = (
    Column("name", "Name", lambda sweep: sweep.name),
    Column("model", "Model", _of("trainable")),
    Column("status", "Status", lambda sweep: sweep.status),
    Column("trials", "Trials", _progress, begins_high=True),
    Column("epochs", "Epochs", _of("epochs"), begins_high=True),
    Column("best", "Best", _of("best_score"), begins_high=True),
    Column("left", "Time left", _of("ends")),
    Column("pcs", "PCs", _pcs),
    Column("started", "Started", _of("started"), begins_high=True),
)


async def show(request: web.Request) -> web.Response:
    """The page."""
    page = context_of(request)
    await page.look()
    sweeps, view = [*page.sweeps.sweeps.values()], TableView.asked(request.query, COLUMNS, "-started")
    return page.html(
        request,
        "sweeps.html",
        sweeps=sweeps,
        shown=view.of(sweeps, lambda sweep: sweep.status, _words),
        view=view,
        statuses=sorted({sweep.status for sweep in sweeps}),
        curve_of=curve_of,
        curve_pixels=CURVE_PIXELS,
        left=left,
        since=since,
    )


async def events(request: web.Request) -> web.StreamResponse:
    """Tell it that a sweep has changed."""
    page = context_of(request)
    return await page.stream(request, lambda: {"changed": page.sweeps.version})


def curve_of(points: Sequence[tuple[float, float]]) -> str:
    """A line with a step wherever the best so far got better, for SVG."""
    scores = [score for _, score in points]
    before = zip(points[1:], points, strict=False)
    corners = [corner for now, last in before for corner in ((now[0], last[1]), now)]
    across, up = (points[0][0], points[-1][0]), (min(scores), max(scores))
    return Frame(across, up, *CURVE_PIXELS).points([points[0], *corners])


def left(ends: float | None) -> str:
    """`about 12 min` until a sweep ends; "" where that is not known."""
    return "" if ends is None else f"about {rough(max(0.0, ends - time.time()))}"


def since(started: float | None) -> str:
    """`2026-01-31 14:05`"""
    return "" if started is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(started))


def _words(sweep: ListedSweep) -> str:
    about = sweep.summary
    told = f"{about.trainable} {' '.join(about.tags)}" if about is not None else ""
    return f"{sweep.name} {sweep.folder.name} {told}".casefold()


ROUTES = [web.get("/", show), web.get("/events/sweeps", events)]
