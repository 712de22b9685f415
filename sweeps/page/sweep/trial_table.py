"""The table of all trials of a sweep: sorted by any column, filtered by status and words, in pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

import numpy as np

from sweeps.analysis.report.report_tables import number_of
from sweeps.common.formatting import cell, count, short
from sweeps.page.sweep_summary import status_word
from sweeps.page.table_view import Column, Frame, TableView
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.trials import Status, TrialRow

STATUSES = ("training", "waiting", *get_args(Status))
"""Of trials, as `status_word` says them."""


@dataclass(frozen=True)
class ShownTrial:
    """A trial in the table; what most pages of the table do not show is made when it is asked for."""

    record: Record
    trial: TrialRow
    status: str
    """In the words of a running sweep: training and waiting, too."""

    @cached_property
    def values(self) -> tuple[float | None, ...]:
        """Of each objective, in its best epoch."""
        several = self.record.objectives
        return self.trial.values(several) or (None,) * len(several.every)

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """Those that differ between trials."""
        return self.record.varied(self.trial)

    @property
    def name(self) -> str:
        """`7`, and `7 (your defaults)` of a baseline."""
        return number_of(self.trial)

    @property
    def scores(self) -> list[tuple[float, float]]:
        """Of its epochs, in order."""
        return [(epoch, row.score) for epoch, row in sorted(self.trial.epochs.items())]

    @property
    def curve_in_words(self) -> str:
        """What its small curve shows, of a trial with epochs, for who can't see it."""
        first, last = (score for _, score in (self.scores[0], self.scores[-1]))
        metric, epochs = self.record.objective.metric, count(len(self.trial.epochs), "epoch")
        return f"{metric} from {short(first)} to {short(last)} in {epochs}"

    @property
    def words(self) -> str:
        """All in which a filter looks."""
        trial = self.trial
        named = " ".join(f"{name}={cell(self.params, name)}" for name in self.params)
        place = trial.place.get("pc") or ""
        about = (place, trial.reason, trial.note, *trial.tags, trial.origin, *trial.notices)
        return f"trial {trial.number} {trial.trainable} {named} {' '.join(about)}".casefold()


def rows_of(record: Record) -> list[ShownTrial]:
    """All trials, by number."""
    of_sweep = status.status(record)  # looks at its lock
    return [ShownTrial(record, trial, status_word(trial, of_sweep)) for trial in record.trials]


def view_of(query: Mapping[str, str], record: Record) -> TableView[ShownTrial]:
    """What the address of a page asks for: by default the best trials first."""
    metric = record.objectives.first
    default = f"{'-' if metric.mode == 'max' else ''}value.{metric.metric}"
    return TableView.asked(query, _columns(record), default)


def _columns(record: Record) -> list[Column[ShownTrial]]:
    """Those that this sweep has."""
    names = dict.fromkeys(name for trial in record.trials for name in trial.params)
    several = [Column[ShownTrial]("model", "model", lambda row: row.trial.trainable)]
    values = [
        Column(f"value.{each.metric}", each.metric, _value(place), each.mode == "max", is_number=True)
        for place, each in enumerate(record.objectives.every)
    ]
    return [
        Column("trial", "trial", lambda row: row.trial.number, is_number=True),
        *(several if record.info.is_of_several else []),
        Column("status", "status", lambda row: row.status),
        *values,
        Column("at", "in epoch", lambda row: row.trial.best_epoch(record.objective), is_number=True),
        Column("epochs", "epochs", lambda row: len(row.trial.epochs), begins_high=True, is_number=True),
        Column("trained", "trained", lambda row: row.trial.seconds, begins_high=True, is_number=True),
        *(Column(f"param.{name}", name, _param(name), is_number=True) for name in names),
    ]


def _value(place: int) -> Callable[[ShownTrial], float | None]:
    return lambda row: row.values[place]


def _param(name: str) -> Callable[[ShownTrial], Any]:
    return lambda row: row.params.get(name)


def frame_of(record: Record, rows: Sequence[ShownTrial], width: int, height: int) -> Frame:
    """The axes that the small curves of a page have in common: outliers of these trials are cut off."""
    epochs = [epoch for each in rows for epoch in each.trial.epochs]
    every = (row.score for each in rows for row in each.trial.epochs.values())
    scores = [score for score in every if math.isfinite(score)]
    shown_percents = [5, 100] if record.objective.mode == "max" else [0, 95]
    low, high = np.percentile(scores, shown_percents) if scores else (0.0, 1.0)
    last = max(epochs, default=1)
    return Frame((min(1, last), last), (float(low), float(high)), width, height)
