"""The page *A sweep*: what it does now, all its trials, and what the report has, live."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from aiohttp import web

from sweeps.analysis.figures import FIGURES
from sweeps.analysis.report.page import Drawn, figure
from sweeps.analysis.report.sections import SECTIONS, Section
from sweeps.analysis.report.summary import Tile, summary
from sweeps.analysis.sweep import Sweep
from sweeps.page.page_context import context_of
from sweeps.page.sweep import at_work, control_forms
from sweeps.page.sweep.shown_sweep import ROOT, ShownSweep, events, shown_sweep
from sweeps.page.sweep.trial_log import last_line
from sweeps.page.sweep.trial_table import STATUSES, table_of, view_of, words_of_curve
from sweeps.record.record import Record

CURVE_WIDTH, CURVE_HEIGHT = 90, 24
"""Of a small curve, in pixels."""
OWN_TABLE, ABOVE = "trials", ("result", "next-steps")
"""The section of the report in whose place this page has a table of its own, and those above it."""


MOST_EPOCHS_AT_EACH_CHANGE = 2000


async def show(request: web.Request) -> web.Response:
    """The page, or the part of it that is fetched again."""
    sweep, page = await shown_sweep(request), context_of(request)
    part = request.headers.get("HX-Target", "")
    content = await page.in_thread(_content, sweep, request, part)
    return page.html(request, "sweep.html", sweep=sweep, part=part, at_work=at_work, **content)


def _content(sweep: ShownSweep, request: web.Request, part: str) -> dict[str, Any]:
    """What the parts of the page show, all or the one that is fetched again."""
    record, parts = sweep.record, [part] if part else [*_OF_PARTS]
    made = (_OF_PARTS[name](sweep, request) for name in parts if name in _OF_PARTS)
    return {"record": record, **{name: value for each in made for name, value in each.items()}}


def _trials(sweep: ShownSweep, request: web.Request) -> dict[str, Any]:
    table = table_of(sweep.record)
    view = view_of(request.query, sweep.record)
    shown = view.of(table.rows(), lambda row: row.status, lambda row: row.words)
    frame = table.frame(shown.rows, CURVE_WIDTH, CURVE_HEIGHT)
    found = {"view": view, "shown": shown, "frame": frame}
    return {**found, "statuses": STATUSES, "words_of_curve": words_of_curve}


def _at_work(sweep: ShownSweep, request: web.Request) -> dict[str, Any]:
    training = at_work.training(sweep.record, time.time())
    trials = (sweep.record.trials[each.number] for each in training)
    printed = {trial.number: last_line(sweep.listed.folder, trial) for trial in trials}
    return {"training": training, "printed": printed, "rungs": at_work.rungs(sweep.record)}


_OF_PARTS: Mapping[str, Callable[[ShownSweep, web.Request], dict[str, Any]]] = {
    "now": lambda sweep, request: {"tiles": _tiles(sweep)},
    "steering": lambda sweep, request: {"forms": control_forms.offered(sweep.listed.status)},
    "at-work": _at_work,
    "trials": _trials,
    "events": lambda sweep, request: {"events": at_work.events(sweep.record)},
}
"""Each part that is fetched again by itself, with what its template takes."""


_TILES: WeakKeyDictionary[Record, tuple[str, list[Tile]]] = WeakKeyDictionary()


def _tiles(sweep: ShownSweep) -> list[Tile]:
    """The summary, of a sweep with many epochs not at each change: it adds up all of them."""
    is_large = sweep.listed.summary is not None and sweep.listed.summary.epochs > MOST_EPOCHS_AT_EACH_CHANGE
    version = sweep.versions["slow" if is_large else "changed"]
    known = _TILES.get(sweep.record)
    if known is None or known[0] != version:
        known = _TILES[sweep.record] = version, summary(Sweep(sweep.record))
    return known[1]


async def show_sections(request: web.Request) -> web.Response:
    """What the report has."""
    sweep, page = await shown_sweep(request), context_of(request)
    is_first = request.query.get("of") == "result"
    found = await page.in_thread(_sections, sweep.record, is_first)
    version = sweep.versions["slow"]
    figures = {
        section.name: [
            Drawn(name, address=f"{sweep.path}/figure/{name}?version={version}") for name in section.figures
        ]
        for section in found
    }
    return page.html(request, "sections_of_sweep.html", sweep=sweep, sections=found, figures=figures)


def _sections(record: Record, is_first: bool) -> list[Section]:
    """Those above the table of trials, or those below it."""
    return [
        section
        for name, make in SECTIONS.items()
        if name != OWN_TABLE and is_first == (name in ABOVE)
        if (section := make(Sweep(record))) is not None
    ]


async def show_figure(request: web.Request) -> web.Response:
    """The content of a figure, which does not change with its version."""
    name = request.match_info["name"]
    if name not in FIGURES:
        raise web.HTTPNotFound(text="There is no such figure.")
    sweep, page = await shown_sweep(request), context_of(request)
    drawn = await page.in_thread(figure, Sweep(sweep.record), name)
    return figure_response(drawn)


def figure_response(drawn: Drawn) -> web.Response:
    """The content of a figure; its address names its version."""
    headers = {"Cache-Control": "private, max-age=3600"}
    return web.Response(text=drawn.content, content_type="application/json", headers=headers)


ROUTES = [
    web.get(ROOT, show),
    web.get(f"{ROOT}/sections", show_sections),
    web.get(f"{ROOT}/figure/{{name}}", show_figure),
    web.get(f"{ROOT}/events", events),
]
