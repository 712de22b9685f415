"""The page *A trial*: its curve beside the leaders', its hyperparameters beside the best's, its log."""

from __future__ import annotations

import html
import itertools
from pathlib import Path
from typing import Any

from aiohttp import web

from sweeps.analysis.figures.learning_curves import trial_curves
from sweeps.analysis.report.page import Drawn, drawn
from sweeps.analysis.sweep import Sweep
from sweeps.page.page_context import context_of
from sweeps.page.sweep import at_work, compared, control_forms, trial_log
from sweeps.page.sweep.shown_sweep import ROOT, ShownSweep, shown_sweep, shown_trial
from sweeps.page.sweep.sweep_page import figure_response
from sweeps.page.sweep.trial_table import status_word
from sweeps.page.updates import Event
from sweeps.record import status
from sweeps.record.trials import TrialRow
from sweeps.training.profiling.time_breakdown import PARTS, mean_costs, verdict

TRIAL = f"{ROOT}/trial/{{number}}"
OF_TRIAL = ("stop", "retry", "note", "tag", "untag")
"""Commands that the page of a trial offers."""


async def show(request: web.Request) -> web.Response:
    """The page, or the part of it that is fetched again."""
    sweep, page = await shown_sweep(request), context_of(request)
    trial = shown_trial(request, sweep)
    content = await page.in_thread(_content, sweep, trial)
    part = request.headers.get("HX-Target", "")
    return page.html(request, "trial.html", sweep=sweep, trial=trial, part=part, at_work=at_work, **content)


def _content(sweep: ShownSweep, trial: TrialRow) -> dict[str, Any]:
    record, folder = sweep.record, sweep.listed.folder
    is_running = status.is_running(record)
    costs = mean_costs((row.seconds, row.costs) for row in trial.epochs.values())
    word = status_word(trial, is_running=is_running, is_held=record.info.paused_at is not None)
    version = f"{trial.attempt}-{len(trial.epochs)}-{sweep.versions['slow']}"
    address = f"{sweep.trial_path(trial.number)}/figure?version={version}"
    log, forms = _log(folder, trial), control_forms.offered(sweep.listed.status)
    return {
        "record": record,
        "how": word,
        "values": status.in_words(record, trial.values(record.objectives)),
        "figure": Drawn("trial_curves", address=address),
        "beside": compared.beside_best(record, trial),
        "best": record.best(),
        "breakdown": {part.replace("_", " "): costs.get(f"{part}_pct", 0.0) for part in PARTS}
        if costs
        else {},
        "verdict": verdict(costs),
        "attempts": [
            (nth, row, after.opened_for if row.status == "unfinished" else row.reason)
            for nth, (row, after) in enumerate(itertools.pairwise([*trial.attempts, trial]), start=1)
        ],
        "log": None if log is None else trial_log.end_of(log),
        "log_name": "" if log is None else log.name,
        "forms": [form for form in forms if form.command in _commands(trial)],
    }


def _commands(trial: TrialRow) -> list[str]:
    left_out = "retry" if trial.status == "unfinished" else "stop"
    return [name for name in OF_TRIAL if name != left_out]


async def show_figure(request: web.Request) -> web.Response:
    """The content of its figure."""
    sweep, page = await shown_sweep(request), context_of(request)
    trial = shown_trial(request, sweep)
    found = await page.in_thread(
        drawn, "trial_curves", lambda: trial_curves(Sweep(sweep.record), trial.number)
    )
    return figure_response(found)


async def log_events(request: web.Request) -> web.StreamResponse:
    """Push what is printed into the log."""
    sweep = await shown_sweep(request)
    trial = shown_trial(request, sweep)
    after = request.headers.get("Last-Event-ID", request.query.get("after", ""))
    ends_at = int(after) if after.isascii() and after.isdecimal() and len(after) < 16 else 0

    async def printed() -> list[Event]:
        nonlocal ends_at
        log = _log(sweep.listed.folder, trial)
        part = None if log is None else trial_log.printed_since(log, ends_at)
        if part is None:
            return []
        ends_at = part.ends_at
        return [Event("whole" if part.is_whole else "log", html.escape(part.text), str(ends_at))]

    return await context_of(request).listeners.push(request, printed)


def _log(folder: Path, trial: TrialRow) -> Path | None:
    return next(iter(trial_log.log_files(folder, trial)), None)


ROUTES = [
    web.get(TRIAL, show),
    web.get(f"{TRIAL}/figure", show_figure),
    web.get(f"{TRIAL}/log-events", log_events),
]
