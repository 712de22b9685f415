"""Two to ten sweeps or trials side by side: their settings, and what differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.common.formatting import duration, pairs, short, short_value
from sweeps.common.param_types import shown_range
from sweeps.config.sweep_config import SweepConfig
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

    @property
    def differing(self) -> int:
        """How many rows differ."""
        return sum(row.differs for row in self.rows)


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
    settings = [_settings(record) for record in records]
    return [
        ComparedTable("Results", [ComparedRow(name, [*map(of, records)]) for name, of in results.items()]),
        _table("Hyperparameters of the best trial", [{} if t is None else _params(t) for t in best]),
        _table("Settings that were given", settings),
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
    known, given = SweepConfig.settings(), record.info.settings.given()
    values = record.info.settings.flat()
    return {
        name.replace("_", " "): _typed(values[name])
        for name in known
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
