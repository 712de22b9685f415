"""The table of all trials of a sweep: sorted by any column, filtered by status and words, in pages."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

import numpy as np

from sweeps.common.formatting import cell, count, short
from sweeps.page.curves import Frame
from sweeps.page.table_view import Column, TableView
from sweeps.record import status as record_status
from sweeps.record.record import Record
from sweeps.record.trials import DEFAULTS, Status, TrialRow

TRIALS_A_PAGE = 100
MOST_TABLES = 4
"""In memory."""
STATUSES = ("training", "waiting", *get_args(Status))
"""Of trials, as `status_word` says them."""
HYPERPARAMETER = "param."
"""Begins the name of the column of a hyperparameter."""
_State = tuple[int, int, str, bool, tuple[Any, ...]]


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
    def best_epoch(self) -> int | None:
        return self.trial.best_epoch(self.record.objective)

    @cached_property
    def seconds(self) -> float:
        """Of training."""
        return self.trial.seconds

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """Those that differ between trials."""
        return self.record.varied(self.trial)

    @property
    def name(self) -> str:
        """`7`, and `7 (your defaults)` of a baseline."""
        return (
            f"{self.trial.number} ({DEFAULTS})" if self.trial.origin == DEFAULTS else f"{self.trial.number}"
        )

    @property
    def scores(self) -> list[tuple[float, float]]:
        """Of its epochs, in order."""
        return [(epoch, row.score) for epoch, row in sorted(self.trial.epochs.items())]

    @cached_property
    def words(self) -> str:
        """All in which a filter looks."""
        trial = self.trial
        named = " ".join(f"{name}={cell(self.params, name)}" for name in self.params)
        place = trial.place.get("pc") or ""
        about = (place, trial.reason, trial.note, *trial.tags, trial.origin, *trial.notices)
        return f"trial {trial.number} {trial.trainable} {named} {' '.join(about)}".casefold()


class TrialTable:
    """All trials of a record. What has not changed since the last time is not made again.

    Args:
        record: as it is now.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._shown: dict[int, tuple[_State, ShownTrial]] = {}

    def rows(self) -> list[ShownTrial]:
        """All of them, by number."""
        is_running, is_held = record_status.is_running(self._record), self._record.info.paused_at is not None
        return [self._row(trial, is_running, is_held) for trial in self._record.trials]

    def columns(self) -> list[Column[ShownTrial]]:
        """The columns that this sweep has."""
        record = self._record
        names = dict.fromkeys(name for trial in record.trials for name in trial.params)
        best_first = [objective.mode == "max" for objective in record.objectives.every]
        several = [Column[ShownTrial]("model", "model", lambda row: row.trial.trainable)]
        values = [
            Column[ShownTrial](f"value.{metric}", metric, _value(place), begins_high=is_high, is_number=True)
            for place, (metric, is_high) in enumerate(zip(record.objectives.metrics, best_first, strict=True))
        ]
        return [
            Column("trial", "trial", lambda row: row.trial.number, is_number=True),
            *(several if record.info.is_of_several else []),
            Column("status", "status", lambda row: row.status),
            *values,
            Column("at", "in epoch", lambda row: row.best_epoch, is_number=True),
            Column("epochs", "epochs", lambda row: len(row.trial.epochs), begins_high=True, is_number=True),
            Column("trained", "trained", lambda row: row.seconds, begins_high=True, is_number=True),
            *(Column(f"{HYPERPARAMETER}{name}", name, _param(name), is_number=True) for name in names),
        ]

    def frame(self, rows: Sequence[ShownTrial], width: int, height: int) -> Frame:
        """The axes that the small curves of a page have in common: outliers of these trials are cut off."""
        scores = [
            row.score for each in rows for row in each.trial.epochs.values() if math.isfinite(row.score)
        ]
        epochs = [epoch for each in rows for epoch in each.trial.epochs]
        low, high = np.percentile(scores, [5, 100]) if scores else (0.0, 1.0)
        if self._record.objective.mode == "min":
            low, high = np.percentile(scores, [0, 95]) if scores else (0.0, 1.0)
        last = max(epochs, default=1)
        return Frame((min(1, last), last), (float(low), float(high)), width, height)

    def _row(self, trial: TrialRow, is_running: bool, is_held: bool) -> ShownTrial:
        words = status_word(trial, is_running=is_running, is_held=is_held)
        notes = (len(trial.notices), trial.note, tuple(trial.tags))
        state = trial.attempt, len(trial.epochs), words, trial.reason != "", notes
        known = self._shown.get(trial.number)
        if known is None or known[0] != state or known[1].trial is not trial:
            known = state, ShownTrial(self._record, trial, words)
            self._shown[trial.number] = known
        return known[1]


def _value(place: int) -> Callable[[ShownTrial], float | None]:
    return lambda row: row.values[place]


def _param(name: str) -> Callable[[ShownTrial], Any]:
    return lambda row: row.params.get(name)


@functools.lru_cache(maxsize=MOST_TABLES)
def table_of(record: Record) -> TrialTable:
    """The table of a record; the last ones are kept."""
    return TrialTable(record)


def status_word(trial: TrialRow, *, is_running: bool, is_held: bool = False) -> str:
    """The status of a trial; of one that has not ended what it does: `training`, `waiting` (at a rung, or in
    a pause), or `unfinished` where no process runs its sweep."""
    if trial.status != "unfinished" or not is_running:
        return trial.status
    return "waiting" if trial.is_paused or is_held else "training"


def words_of_curve(record: Record, trial: TrialRow) -> str:
    """What a small curve shows, for who can't see it."""
    scores = [row.score for _, row in sorted(trial.epochs.items())]
    if not scores:
        return "no epoch yet"
    metric, ends = record.objective.metric, f"{short(scores[0])} to {short(scores[-1])}"
    return f"{metric} from {ends} in {count(len(scores), 'epoch')}"


def view_of(query: Mapping[str, str], record: Record) -> TableView[ShownTrial]:
    """What the address of a page asks for: by default the best trials first."""
    metric = record.objectives.first
    default = f"{'-' if metric.mode == 'max' else ''}value.{metric.metric}"
    return TableView.asked(query, table_of(record).columns(), default, TRIALS_A_PAGE)
