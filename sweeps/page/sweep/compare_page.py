"""The page *Compare*: two to ten sweeps or trials side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from aiohttp import web

from sweeps.analysis.figures import compared_sweeps
from sweeps.analysis.report.page import Drawn, drawn
from sweeps.page.page_context import context_of
from sweeps.page.sweep import compared
from sweeps.page.sweep.compared import LEAST, MOST
from sweeps.page.sweep.shown_sweep import ShownSweep, shown_sweep, trial_of
from sweeps.page.sweep.sweep_page import figure_response
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow

OF_SWEEPS = {
    "best_of_each": compared_sweeps.best_of_each,
    "hyperparameters_of_each": compared_sweeps.hyperparameters_of_each,
}
OF_TRIALS = {
    "curves_of_each": compared_sweeps.curves_of_each,
    "hyperparameters_of_trials": compared_sweeps.hyperparameters_of_trials,
}


async def show(request: web.Request) -> web.Response:
    """The page."""
    page, (sweeps, trials) = context_of(request), await _chosen(request)
    shown = trials or sweeps
    fault = ""
    if not LEAST <= len(shown) <= MOST:
        fault = f"{len(shown)} chosen: choose {LEAST} to {MOST} sweeps, or trials, by their boxes in a table."
    names = _names(sweeps, trials)
    tables = [] if fault else await page.in_thread(_tables, sweeps, trials)
    chosen = [*(("sweep", key) for key in request.query.getall("sweep", []))] if not trials else []
    chosen += [("trial", each) for each in request.query.getall("trial", [])]
    version = "-".join(sweep.versions["slow"] for sweep in sweeps)
    address = f"?{urlencode([*chosen, ('version', version)])}"
    names_of: Iterable[str] = OF_TRIALS if trials else OF_SWEEPS
    figures = [Drawn(name, address=f"/compare/{name}{address}") for name in names_of]
    paths = [sweep.trial_path(trial.number) for sweep, trial in trials] or [sweep.path for sweep in sweeps]
    return page.html(
        request,
        "compare.html",
        fault=fault,
        names=names,
        paths=paths,
        tables=tables,
        figures=[] if fault else figures,
        what="trials" if trials else "sweeps",
    )


async def show_figure(request: web.Request) -> web.Response:
    """The content of a figure."""
    page, (sweeps, trials), name = context_of(request), await _chosen(request), request.match_info["name"]
    if not LEAST <= len(trials or sweeps) <= MOST or name not in (OF_TRIALS if trials else OF_SWEEPS):
        raise web.HTTPNotFound(text="There is no such figure.")
    names = _names(sweeps, trials)
    if trials:
        of_trials: Sequence[tuple[str, Record, TrialRow]] = [
            (shown, sweep.record, trial) for shown, (sweep, trial) in zip(names, trials, strict=True)
        ]
        found = await page.in_thread(drawn, name, lambda: OF_TRIALS[name](of_trials))
    else:
        records = {shown: sweep.record for shown, sweep in zip(names, sweeps, strict=True)}
        found = await page.in_thread(drawn, name, lambda: OF_SWEEPS[name](records))
    return figure_response(found)


async def _chosen(request: web.Request) -> tuple[list[ShownSweep], list[tuple[ShownSweep, TrialRow]]]:
    """The sweeps and the trials that an address names; the sweeps of the trials are among the sweeps."""
    trials: list[tuple[ShownSweep, TrialRow]] = []
    sweeps: dict[str, ShownSweep] = {}
    keys = dict.fromkeys(request.query.getall("sweep", []))
    named = [each.rpartition(":") for each in dict.fromkeys(request.query.getall("trial", []))]
    for key in [*keys, *dict.fromkeys(key for key, _, _ in named)][: MOST + 1]:
        sweeps.setdefault(key, await shown_sweep(request, key))
    for key, _, number in named[: MOST + 1]:
        trials.append((sweeps[key], trial_of(sweeps[key], number)))
    return [*sweeps.values()], trials


def _names(sweeps: Sequence[ShownSweep], trials: Sequence[tuple[ShownSweep, TrialRow]]) -> list[str]:
    """Of what is compared, each another one."""
    if not trials:
        return [sweep.listed.key for sweep in sweeps]
    if len(sweeps) == 1:
        return [f"trial {trial.number}" for _, trial in trials]
    return [f"{sweep.listed.key} {trial.number}" for sweep, trial in trials]


def _tables(
    sweeps: Sequence[ShownSweep], trials: Sequence[tuple[ShownSweep, TrialRow]]
) -> list[compared.ComparedTable]:
    if trials:
        return compared.trial_tables([(sweep.record, trial) for sweep, trial in trials])
    return compared.sweep_tables([sweep.record for sweep in sweeps])


ROUTES = [web.get("/compare", show), web.get("/compare/{name}", show_figure)]
