"""The trials of a sweep, as the lines of its journal tell of them one by one, in writing and in reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from optuna.trial import TrialState

from sweeps.record.journal import STUDY_ID, Line, Operation
from sweeps.record.ranking import RankedTrials
from sweeps.record.trials import (
    ATTEMPT_OF,
    ATTRIBUTES,
    NO_EARLIER,
    Earlier,
    Status,
    TrialRow,
    earlier_of,
    row_of,
    seconds_of,
    take_up,
)

OF_TRIAL = ":"
"""In the name of an attribute of the sweep, before the number of a trial: Optuna changes no trial that has
ended, and its notes and tags may change."""


class ReplayedTrials(RankedTrials):
    """Trials and their ranking, after each line."""

    def __init__(self) -> None:
        super().__init__({})
        self.earlier: Earlier = NO_EARLIER
        self.study_name: str | None = None
        """In Optuna's journal; None before its first line."""
        self._rows: list[TrialRow | None] = []
        """By Optuna's ids: each attempt is a trial of its own there. None of a trial of another study."""
        self._ids: list[int] = []
        """Optuna's id of each trial, of its last attempt."""
        self._statuses: dict[int, Status] = {}
        """By Optuna's ids, what was written before the end, which makes it count."""
        self._ended = set[int]()
        """Optuna's ids of trials that have ended."""
        self._last_report = 0.0
        self._reported_elapsed_s = 0.0

    def take(self, line: Line) -> None:
        """Change what a line says.

        Raises:
            LookupError, TypeError: the lines do not belong together.
            ValueError: it is no line of Optuna.
        """
        is_ours = line.get("study_id", STUDY_ID) == STUDY_ID
        if (take := self._TAKES.get(line["op_code"])) is None:
            Operation(line["op_code"])  # what the others change, the record has elsewhere
        elif is_ours:
            take(self, line)
        elif line["op_code"] == Operation.CREATE_TRIAL:
            self._rows.append(None)

    def _take_study(self, line: Line) -> None:
        self.study_name = self.study_name or line["study_name"]

    def _take_study_user_attr(self, line: Line) -> None:
        self.about = {**self.about, **line["user_attr"]}
        for key, value in line["user_attr"].items():
            name, _, number = key.partition(OF_TRIAL)
            if number and name in ("note", "tags"):
                setattr(self.trials[int(number)], name, value)

    def _take_study_system_attr(self, line: Line) -> None:
        if "earlier" in line["system_attr"]:
            self.earlier = earlier_of(line["system_attr"]["earlier"])

    def _take_user_attr(self, line: Line) -> None:
        if (row := self._open_row(line)) is None:
            return
        for name, value in line["user_attr"].items():
            if name == "status":
                self._statuses[line["trial_id"]] = value
            elif name in ATTRIBUTES:
                setattr(row, name, value)

    def _take_system_attr(self, line: Line) -> None:
        if (row := self._open_row(line)) is None:
            return
        for key, content in line["system_attr"].items():
            if (epoch := take_up(row, key, content)) is not None:
                self._take_report(row, epoch)

    def _open_row(self, line: Line) -> TrialRow | None:
        """The trial of a line; None where it has ended, is not there, or is of another study."""
        optuna_id: int = line["trial_id"]
        return None if optuna_id in self._ended or optuna_id >= len(self._rows) else self._rows[optuna_id]

    def _take_trial(self, line: Line) -> None:
        number: int | None = line.get("user_attrs", {}).get(ATTEMPT_OF)
        trial = row_of(len(self.trials) if number is None else number, line)
        if number is None:
            self._list(trial)
            self._ids.append(len(self._rows))
        else:
            before = self.trials[number]
            self._replace(trial)
            for epoch in before.epochs.keys() - trial.epochs.keys():
                self._losses.get(epoch, {}).pop(number, None)
            self._ids[number] = len(self._rows)
        self._rows.append(trial)

    def _take_report(self, trial: TrialRow, epoch: int) -> None:
        row = trial.epochs[epoch]
        self._rank_epoch(trial, trial.attempt, epoch, row)
        self._last_report = max(self._last_report, row.time)
        self._reported_elapsed_s = max(self._reported_elapsed_s, row.elapsed_s)

    def _take_state(self, line: Line) -> None:
        trial = self._open_row(line)
        if trial is None or not TrialState(line["state"]).is_finished():
            return
        self._ended.add(line["trial_id"])
        if self.trials[trial.number] is not trial:  # cut short: a further attempt has begun already
            return
        trial.status = self._statuses.pop(line["trial_id"], "unfinished")
        if trial.end is None:
            trial.end = seconds_of(line.get("datetime_complete"))
        if trial.status != "unfinished":
            self._settle(trial)

    _TAKES: ClassVar[Mapping[int, Callable[[ReplayedTrials, Line], None]]] = {
        Operation.CREATE_STUDY: _take_study,
        Operation.STUDY_USER_ATTR: _take_study_user_attr,
        Operation.STUDY_SYSTEM_ATTR: _take_study_system_attr,
        Operation.CREATE_TRIAL: _take_trial,
        Operation.TRIAL_STATE: _take_state,
        Operation.TRIAL_USER_ATTR: _take_user_attr,
        Operation.TRIAL_SYSTEM_ATTR: _take_system_attr,
    }
