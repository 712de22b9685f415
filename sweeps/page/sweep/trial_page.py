"""The page *A trial*: its curve beside the leaders', its hyperparameters beside the best's, its log."""

from __future__ import annotations

import dataclasses
import html
from functools import partial
from pathlib import Path

from aiohttp import web

from sweeps.analysis.figures.learning_curves import trial_curves
from sweeps.analysis.report.page import Drawn, drawn
from sweeps.analysis.report.report_tables import attempts_of
from sweeps.page.page_context import Event, PageContext, changes, context_of, known_versions
from sweeps.page.sweep import trial_log
from sweeps.page.sweep.compare_page import beside_best
from sweeps.page.sweep.control_page import offered
from sweeps.page.sweep.shown_sweep import ROOT, ShownSweep, shown_sweep, trial_of, versions_of
from sweeps.page.sweep.sweep_page import figure_response
from sweeps.page.sweep.trial_log import LogPart
from sweeps.page.sweep_summary import status_word
from sweeps.record import status
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.training.time_breakdown import PARTS, mean_costs, verdict

TRIAL = f"{ROOT}/trial/{{number}}"
OF_TRIAL = ("stop", "retry", "note", "tag", "untag")
"""Commands that the page of a trial offers."""


async def show(request: web.Request) -> web.Response:
    """The page, or the part of it that is fetched again."""
    sweep, page = await shown_sweep(request), context_of(request)
    trial = trial_of(sweep, request.match_info["number"])
    return await page.in_thread(_page, page, request, sweep, trial)


def _page(page: PageContext, request: web.Request, sweep: ShownSweep, trial: TrialRow) -> web.Response:
    """The page of a trial as it is now, in the thread that reads records: the next look changes it."""
    record, folder = sweep.record, sweep.listed.folder
    costs = mean_costs((row.seconds, row.costs) for row in trial.epochs.values())
    version = f"{trial.attempt}-{len(trial.epochs)}-{sweep.versions['slow']}"
    address = f"{sweep.trial_path(trial.number)}/figure?version={version}"
    left_out = "retry" if trial.status == "unfinished" else "stop"
    log, forms = trial_log.log_of(folder, trial), offered(sweep.listed.status)
    end = None if log is None else trial_log.end_of(log)
    log_versions = {} if log is None or end is None else {"log": _log_version(log, end)}
    return page.html(
        request,
        "trial.html",
        sweep=sweep,
        trial=trial,
        record=record,
        how=status_word(trial, status.status(record)),
        values=status.in_words(record, trial.values(record.objectives)),
        figure=Drawn("trial_curves", address=address),
        beside=beside_best(record, trial),
        best=record.best(),
        breakdown={part.replace("_", " "): costs.get(f"{part}_pct", 0.0) for part in PARTS} if costs else {},
        verdict=verdict(costs, is_prepared=_is_prepared(record, trial)),
        attempts=attempts_of(trial),
        log=end,
        log_name="" if log is None else log.name,
        versions={**sweep.versions, "log-file": "" if log is None else log.name, **log_versions},
        forms=[form for form in forms if form.command in OF_TRIAL and form.command != left_out],
    )


def _is_prepared(record: Record, trial: TrialRow) -> bool:
    """Whether it trains on prepared data, as the names of the data sets say."""
    of_model = f" of {trial.trainable}" if record.info.is_of_several else ""
    data = record.info.identity["data"]
    return any(name.startswith("prepared data") and name.endswith(of_model) for name in data)


async def show_figure(request: web.Request) -> web.Response:
    """The content of its figure."""
    sweep, page = await shown_sweep(request), context_of(request)
    number = trial_of(sweep, request.match_info["number"]).number
    make = partial(trial_curves, sweep.record, number)
    return figure_response(await page.in_thread(drawn, "trial_curves", make))


async def events(request: web.Request) -> web.StreamResponse:
    """Tell the page of a trial that something has changed, and push what is printed into its log."""
    page, known = context_of(request), known_versions(request)
    key, sweep = request.match_info["key"], None

    def look() -> list[Event]:
        nonlocal sweep
        page.sweeps.look()
        listed = page.sweeps.sweeps.get(key)
        if listed is None:
            return changes(known, versions_of(None))
        if sweep is None or listed.version != sweep.listed.version:
            sweep = ShownSweep(listed, page.sweeps.record(key))
        log = trial_log.log_of(listed.folder, trial_of(sweep, request.match_info["number"]))
        versions = {**versions_of(listed), "log-file": "" if log is None else log.name}
        return [*changes(known, versions), *_printed(known, log)]

    async def looked() -> list[Event]:
        try:
            return await page.in_thread(look)
        except (OSError, RecordUnreadable, KeyError, web.HTTPNotFound):  # the next look says so
            return []

    return await page.listeners.push(request, looked)


def _printed(known: dict[str, str], log: Path | None) -> list[Event]:
    """What was printed since, or the end of another file as a whole."""
    if log is None:
        return []
    name, _, ends_at = known.get("log", "").rpartition(":")
    is_known = name == log.name and ends_at.isascii() and ends_at.isdecimal() and len(ends_at) < 16
    part = trial_log.printed_since(log, int(ends_at)) if is_known else trial_log.end_of(log)
    if part is None:
        return []
    told = changes(known, {"log": _log_version(log, part)}, html.escape(part.text))
    return [dataclasses.replace(event, name="whole-log") if part.is_whole else event for event in told]


def _log_version(log: Path, part: LogPart) -> str:
    return f"{log.name}:{part.ends_at}"


ROUTES = [
    web.get(TRIAL, show),
    web.get(f"{TRIAL}/figure", show_figure),
    web.get(f"{TRIAL}/events", events),
]
