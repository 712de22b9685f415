"""The page *A sweep*: what it does now, all its trials, and what the report has, live."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from sweeps.analysis.course import judged_at
from sweeps.analysis.figures import FIGURES
from sweeps.analysis.report.page import Drawn, figure
from sweeps.analysis.report.sections import SECTIONS, Section, Tile, summary
from sweeps.common.formatting import duration
from sweeps.page import sweep_summary
from sweeps.page.page_context import PageContext, context_of
from sweeps.page.sweep import trial_table
from sweeps.page.sweep.control_page import offered
from sweeps.page.sweep.shown_sweep import ROOT, ShownSweep, events, shown_sweep
from sweeps.page.sweep.trial_log import last_line
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow

CURVE_WIDTH, CURVE_HEIGHT = 90, 24
"""Of a small curve, in pixels."""
OWN_TABLE, ABOVE = "trials", ("result", "next-steps")
"""The section of the report in whose place this page has a table of its own, and those above it."""
MOST_EVENTS = 30
MOST_LISTED = 60
"""Trials that are listed at a rung."""
MOST_EPOCHS_AT_EACH_CHANGE = 2000


@dataclass(frozen=True)
class Rung:
    """A rung, and the trials that wait there until others have reached it."""

    epoch: int
    reached: int
    """Trials that have a score there."""
    waiting: Sequence[int]
    more: int
    """That wait there and are not listed."""


@dataclass(frozen=True)
class Event:
    """What happened to the sweep or a trial, for the user."""

    time: float | None
    """Seconds since 1970."""
    what: str
    text: str
    trial: int | None = None


async def show(request: web.Request) -> web.Response:
    """The page, or the part of it that is fetched again."""
    sweep, page = await shown_sweep(request), context_of(request)
    return await page.in_thread(_page, page, sweep, request)


def _page(page: PageContext, sweep: ShownSweep, request: web.Request) -> web.Response:
    """The page of a record as it is now, or the part of it that is fetched again, in the thread that reads
    records: the next look changes it."""
    part = request.headers.get("HX-Target", "")
    made = (of_part(sweep, request) for name, of_part in _OF_PARTS.items() if part in ("", name))
    content = {name: value for each in made for name, value in each.items()}
    content |= {"sweep": sweep, "record": sweep.record, "part": part, "clock": clock}
    return page.html(request, "sweep.html", **content)


def _trials(sweep: ShownSweep, request: web.Request) -> dict[str, Any]:
    view, record = trial_table.view_of(request.query, sweep.record), sweep.record
    shown = view.of(trial_table.rows_of(record), lambda row: row.status, lambda row: row.words)
    return {
        "view": view,
        "shown": shown,
        "frame": trial_table.frame_of(record, shown.rows, CURVE_WIDTH, CURVE_HEIGHT),
        "statuses": trial_table.STATUSES,
    }


def _at_work(sweep: ShownSweep, request: web.Request) -> dict[str, Any]:
    training = training_by_pc(sweep.record)
    printed = {trial.number: last_line(sweep.listed.folder, trial) for trial in training}
    found = {"training": training, "printed": printed, "rungs": rungs(sweep.record)}
    return {**found, "epoch_now": status.epoch_now, "last_report": last_report}


_OF_PARTS: Mapping[str, Callable[[ShownSweep, web.Request], dict[str, Any]]] = {
    "now": lambda sweep, request: {"tiles": _tiles(sweep)},
    "steering": lambda sweep, request: {"forms": offered(sweep.listed.status)},
    "at-work": _at_work,
    "trials": _trials,
    "events": lambda sweep, request: {"events": events_of(sweep.record)},
}
"""Each part that is fetched again by itself, with what its template takes."""


def _tiles(sweep: ShownSweep) -> list[Tile]:
    """The summary, of a sweep with many epochs not at each change: it adds up all of them."""
    is_large = sweep.listed.summary is not None and sweep.listed.summary.epochs > MOST_EPOCHS_AT_EACH_CHANGE
    return _summary(sweep.record, sweep.versions["slow" if is_large else "changed"])


@functools.lru_cache(maxsize=4)
def _summary(record: Record, version: str) -> list[Tile]:
    return summary(record)


def training_by_pc(record: Record) -> list[TrialRow]:
    """The trials that train, by PC and GPU."""

    def place(trial: TrialRow) -> tuple[str, str, int]:
        return str(trial.place.get("pc") or ""), str(trial.place.get("gpu") or ""), trial.number

    return sorted(sweep_summary.training(record), key=place)


def last_report(trial: TrialRow) -> str:
    """`reported 12 s ago`"""
    what = "reported" if trial.epochs else "begun"
    return f"{what} {duration(max(0.0, time.time() - _reported(trial)))} ago"


def _reported(trial: TrialRow) -> float:
    """When it has reported last, or begun, in seconds since 1970."""
    return max((row.time for row in trial.epochs.values()), default=trial.start)


def rungs(record: Record) -> list[Rung]:
    """The rungs of a sweep that runs, with who waits there."""
    if not status.is_running(record):
        return []
    is_pruned = record.info.settings.scheduler != "none"
    waiting: dict[int, list[int]] = {epoch: [] for epoch in judged_at(record)[:-1] if is_pruned}
    for trial in record.live:
        if trial.is_paused:
            waiting.setdefault(len(trial.epochs), []).append(trial.number)
    return [
        Rung(epoch, len(record.scores_at(epoch)), there[:MOST_LISTED], max(0, len(there) - MOST_LISTED))
        for epoch, there in sorted(waiting.items())
    ]


def events_of(record: Record) -> list[Event]:
    """What happened, the newest first: starts and resumes, commands with their answers, notices of trials."""
    return sorted(_events(record), key=lambda event: -(event.time or 0.0))[:MOST_EVENTS]


def _events(record: Record) -> Iterator[Event]:
    for place, run in enumerate(record.info.runs):
        changed = f"Changed: {'; '.join(run.changed)}." if run.changed else ""
        yield Event(run.started, "resumed" if place else "started", changed)
    for each in record.info.steered:
        by = f" by {each.by}" if each.by else ""
        yield Event(each.time, f"{' '.join(each.words)}{by}", each.answer)
    for began, number in record.openings:
        yield Event(began, "trained again", record.trials[number].opened_for, number)
    for trial in record.trials:
        for notice in trial.notices:
            yield Event(trial.end or _reported(trial), "notice", notice, trial.number)


def clock(moment: float | None) -> str:
    """`14:05:12`, with the date where it is another day."""
    if moment is None:
        return ""
    then, today = time.localtime(moment), time.localtime()
    is_today = (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M", then)


async def show_sections(request: web.Request) -> web.Response:
    """What the report has."""
    sweep, page = await shown_sweep(request), context_of(request)
    is_first = request.query.get("of") == "result"
    found = await page.in_thread(_sections, sweep, is_first)
    version = sweep.versions["slow"]
    figures = {
        section.name: [
            Drawn(name, address=f"{sweep.path}/figure/{name}?version={version}") for name in section.figures
        ]
        for section in found
    }
    return page.html(request, "sections_of_sweep.html", sections=found, figures=figures)


def _sections(sweep: ShownSweep, is_first: bool) -> list[Section]:
    """Those above the table of trials, or those below it; the log of a trial is on its page."""
    return [
        section.leading(lambda link: f"{sweep.trial_path(link.trial)}#log")
        for name, make in SECTIONS.items()
        if name != OWN_TABLE and is_first == (name in ABOVE)
        if (section := make(sweep.record)) is not None
    ]


async def show_figure(request: web.Request) -> web.Response:
    """The content of a figure, which does not change with its version."""
    name = request.match_info["name"]
    if name not in FIGURES:
        raise web.HTTPNotFound(text="There is no such figure.")
    sweep, page = await shown_sweep(request), context_of(request)
    return figure_response(await page.in_thread(figure, sweep.record, name))


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
