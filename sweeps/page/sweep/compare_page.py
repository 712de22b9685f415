"""The page *Compare*: two to ten sweeps or trials side by side, with their settings and what differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

import plotly.graph_objects as go
from aiohttp import web

from sweeps.analysis.figures.learning_curves import best_of_each, curves_of_each
from sweeps.analysis.figures.parallel_coordinates import hyperparameters_of_each, hyperparameters_of_trials
from sweeps.analysis.report.page import Drawn, drawn
from sweeps.common.formatting import duration, pairs, short, short_value
from sweeps.common.param_types import shown_range
from sweeps.config.sweep_config import SweepConfig
from sweeps.page.page_context import context_of
from sweeps.page.sweep.shown_sweep import ShownSweep, shown_sweep, trial_of
from sweeps.page.sweep.sweep_page import figure_response
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow

LEAST, MOST = 2, 10
"""Sweeps or trials that can be compared."""
MISSING = "-"
"""Of what one of them does not have."""
NOT_COMPARED = ("name", "results_dir")
"""Settings that differ between any two sweeps."""


@dataclass(frozen=True)
class Chosen:
    """What an address names: sweeps, or trials with the sweeps that they are of."""

    sweeps: Sequence[ShownSweep]
    trials: Sequence[tuple[ShownSweep, TrialRow]]

    @property
    def can_be_compared(self) -> bool:
        """Whether so many can stand side by side."""
        return LEAST <= len(self.trials or self.sweeps) <= MOST

    @property
    def names(self) -> list[str]:
        """Of what is compared, each another one."""
        if not self.trials:
            return [sweep.listed.key for sweep in self.sweeps]
        if len(self.sweeps) == 1:
            return [f"trial {trial.number}" for _, trial in self.trials]
        return [f"{sweep.listed.key} {trial.number}" for sweep, trial in self.trials]

    @property
    def paths(self) -> list[str]:
        """Of their pages."""
        of_trials = [sweep.trial_path(trial.number) for sweep, trial in self.trials]
        return of_trials or [sweep.path for sweep in self.sweeps]

    @property
    def figures(self) -> dict[str, Callable[[], go.Figure]]:
        """How each figure is made, by its name."""
        if self.trials:
            named = zip(self.names, self.trials, strict=True)
            trials = [(name, sweep.record, trial) for name, (sweep, trial) in named]
            of_trials = (curves_of_each, hyperparameters_of_trials)
            return {make.__name__: partial(make, trials) for make in of_trials}
        records = {name: sweep.record for name, sweep in zip(self.names, self.sweeps, strict=True)}
        of_sweeps = (best_of_each, hyperparameters_of_each)
        return {make.__name__: partial(make, records) for make in of_sweeps}

    def tables(self) -> list[ComparedTable]:
        """What is told of them."""
        if self.trials:
            return trial_tables([(sweep.record, trial) for sweep, trial in self.trials])
        return sweep_tables([sweep.record for sweep in self.sweeps])


async def show(request: web.Request) -> web.Response:
    """The page."""
    page, chosen = context_of(request), await _chosen(request)
    what, number = "trials" if chosen.trials else "sweeps", len(chosen.names)
    fault, tables, figures = "", list[ComparedTable](), list[Drawn]()
    if chosen.can_be_compared:
        tables = await page.in_thread(chosen.tables)
        version = "-".join(sweep.versions["slow"] for sweep in chosen.sweeps)
        named = [(name, value) for name, value in request.query.items() if name in ("sweep", "trial")]
        query = urlencode([*named, ("version", version)])
        figures = [Drawn(name, address=f"/compare/{name}?{query}") for name in chosen.figures]
    else:
        fault = f"{number} chosen: choose {LEAST} to {MOST} sweeps, or trials, by their boxes in a table."
    return page.html(
        request,
        "compare.html",
        fault=fault,
        names=chosen.names,
        paths=chosen.paths,
        tables=tables,
        figures=figures,
        what=what,
    )


async def show_figure(request: web.Request) -> web.Response:
    """The content of a figure."""
    page, chosen, name = context_of(request), await _chosen(request), request.match_info["name"]
    if not chosen.can_be_compared or name not in chosen.figures:
        raise web.HTTPNotFound(text="There is no such figure.")
    return figure_response(await page.in_thread(drawn, name, chosen.figures[name]))


async def _chosen(request: web.Request) -> Chosen:
    keys = dict.fromkeys(request.query.getall("sweep", []))
    named = [each.rpartition(":") for each in dict.fromkeys(request.query.getall("trial", []))][: MOST + 1]
    every = dict.fromkeys([*(key for key, _, _ in named), *keys])
    sweeps = {key: await shown_sweep(request, key) for key in [*every][: MOST + 1]}
    trials = [(sweeps[key], trial_of(sweeps[key], number)) for key, _, number in named]
    return Chosen([*sweeps.values()], trials)


@dataclass(frozen=True)
class ComparedRow:
    """A setting or a figure, with its value in each of them."""

    name: str
    values: Sequence[str]

    @property
    def differs(self) -> bool:
        """Whether two of them have different values."""
        return len(set(self.values)) > 1


@dataclass(frozen=True)
class ComparedTable:
    """Rows with a title."""

    title: str
    rows: Sequence[ComparedRow]


def sweep_tables(records: Sequence[Record]) -> list[ComparedTable]:
    """Results, hyperparameters of the best trials, settings and search spaces of sweeps."""
    best = [record.best() for record in records]
    results: Mapping[str, Callable[[Record], str]] = {
        "status": lambda record: str(status.status(record)),
        "objective": lambda record: str(record.objectives),
        "best": status.best,
        "trials": lambda record: f"{len(record.searched):,}",
        "epochs": lambda record: f"{sum(trial.spent_epochs for trial in record.trials):,}",
        "time": lambda record: duration(record.elapsed_s),
    }
    return [
        ComparedTable("Results", [ComparedRow(name, [*map(of, records)]) for name, of in results.items()]),
        _table("Hyperparameters of the best trial", [{} if t is None else _params(t) for t in best]),
        _table("Settings that were given", [_settings(record) for record in records]),
        _table("Search space", [record.info.identity["space"] for record in records]),
        _table("Data", [record.info.identity["data"] for record in records]),
        _table("Versions", [record.info.identity["versions"] for record in records]),
    ]


def trial_tables(trials: Sequence[tuple[Record, TrialRow]]) -> list[ComparedTable]:
    """Results and hyperparameters of trials."""
    results: Mapping[str, Callable[[Record, TrialRow], str]] = {
        "sweep": lambda record, trial: record.name,
        "model": lambda record, trial: trial.trainable,
        "status": lambda record, trial: trial.status,
        "best": lambda record, trial: status.in_words(record, trial.values(record.objectives)) or MISSING,
        "in epoch": lambda record, trial: short(trial.best_epoch(record.objective)) or MISSING,
        "epochs": lambda record, trial: f"{len(trial.epochs):,}",
        "trained": lambda record, trial: duration(trial.seconds),
        "seed": lambda record, trial: str(trial.seed),
        "PC": lambda record, trial: str(trial.place.get("pc") or MISSING),
    }
    logged = dict.fromkeys(name for _, trial in trials for name in trial.last_metrics)
    rows = [ComparedRow(name, [of(*each) for each in trials]) for name, of in results.items()]
    rows += [
        ComparedRow(f"last {name}", [_shown(trial.last_metrics, name) for _, trial in trials])
        for name in logged
    ]
    return [
        ComparedTable("Results", rows),
        _table("Hyperparameters", [_params(trial) for _, trial in trials]),
    ]


def beside_best(record: Record, trial: TrialRow) -> ComparedTable:
    """The hyperparameters of a trial beside those of the best one; of the best one alone its own."""
    best = record.best()
    others = [] if best is None or best.number == trial.number else [_params(best)]
    return _table("Hyperparameters", [_params(trial), *others])


def _settings(record: Record) -> dict[str, Any]:
    """Those that differ from the defaults, as they are typed."""
    given, values = record.info.settings.given(), record.info.settings.flat()
    return {
        name.replace("_", " "): _typed(values[name])
        for name in SweepConfig.settings()
        if name in given and name not in NOT_COMPARED
    }


def _typed(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={shown_range(each)}" for name, each in value.items())
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "; ".join(map(pairs, value))
    return short_value(value)


def _params(trial: TrialRow) -> dict[str, Any]:
    return {**trial.params, **trial.fixed}


def _table(title: str, each: Sequence[Mapping[str, Any]]) -> ComparedTable:
    """A row for each name that any of them has; those that differ first."""
    names = dict.fromkeys(name for one in each for name in one)
    rows = [ComparedRow(str(name), [_shown(one, name) for one in each]) for name in names]
    return ComparedTable(title, sorted(rows, key=lambda row: not row.differs))


def _shown(values: Mapping[str, Any], name: str) -> str:
    return short_value(values[name]) if name in values else MISSING


ROUTES = [web.get("/compare", show), web.get("/compare/{name}", show_figure)]
