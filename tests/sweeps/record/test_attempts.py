"""Trials that are opened again: the number stays, what the attempt before has done stays to be seen."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest
from optuna.trial import TrialState

from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record
from sweeps.record.sweep_info import Steered
from tests.conftest import optuna_trials, propose
from tests.sweeps.record.written import new_record, scored


def test_times_stay_where_the_clock_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of summer time, when Optuna's own times have an hour twice."""
    record = scored(tmp_path, "max", [[0.1]], "failed")
    record.open_again(0, kept_epochs=0, why="retried by the user", decided_rungs=[3])
    monkeypatch.setenv("TZ", "UTC+5")
    time.tzset()
    seen = Record.read(tmp_path).trials[0]
    monkeypatch.undo()
    time.tzset()
    assert seen.start == record.trials[0].start
    assert (seen.attempts[0].start, seen.attempts[0].end) == (
        record.trials[0].attempts[0].start,
        record.trials[0].attempts[0].end,
    )
    assert seen.decided_rungs == [3]


def test_a_trial_is_opened_again_by_its_number(tmp_path: Path) -> None:
    record = scored(tmp_path, "max", [[0.1, 0.3], [0.2, 0.6, 0.4]], "failed")
    record.open_again(1, kept_epochs=2, why="retried by the user")
    propose(record, {"lr": 9.0}, seed=3)
    record.report(1, 3, 0.9, {}, 1.0)
    record.report(2, 1, 0.5, {}, 1.0)
    for seen in (record, Record.read(tmp_path)):
        assert [trial.number for trial in seen.trials] == [0, 1, 2] == [t.number for t in seen.searched]
        again = seen.trials[1]
        assert (again.status, again.opened_for) == ("unfinished", "retried by the user")
        assert {epoch: row.score for epoch, row in again.epochs.items()} == {1: 0.2, 2: 0.6, 3: 0.9}
        (before,) = again.attempts
        assert (before.status, before.epochs[3].score, before.attempts) == ("failed", 0.4, [])
        assert [trial.number for trial in seen.live] == [1, 2]
        assert list(seen.scores_at(3).items()) == [(1, 0.9)]
        assert [(each.number, each.attempt) for each in seen.arrivals_at(3)] == [(1, 0), (1, 1)]
        assert [(each.number, each.attempt) for each in seen.arrivals_at(1)] == [(0, 0), (1, 0), (2, 0)]
        assert seen.front() == [1]
    record.end(1, "finished")
    assert [t.status for t in Record.read(tmp_path).trials] == ["failed", "finished", "unfinished"]


def test_the_score_of_a_trial_that_ended_well_counts_once_it_has_it_again(tmp_path: Path) -> None:
    record = scored(tmp_path, "max", [[0.1, 0.9], [0.2, 0.6]])
    record.open_again(0, kept_epochs=0, why="its weights are gone")
    for seen in (record, Record.read(tmp_path)):
        assert seen.ended_leaders(2) == [1]
        assert seen.scores_at(2) == {1: 0.6}
    record.report(0, 1, 0.7, {}, 1.0)
    record.end(0, "finished")
    for seen in (record, Record.read(tmp_path)):
        assert seen.ended_leaders(2) == [0, 1]


@pytest.mark.parametrize("lost_lines", [0, 1])
def test_a_kill_leaves_a_trial_ended_or_open(lost_lines: int, tmp_path: Path) -> None:
    record = scored(tmp_path, "max", [[0.1, math.nan]], "diverged")
    record.open_again(0, kept_epochs=1, why="retried by the user")
    lines = (tmp_path / JOURNAL).read_bytes().splitlines(keepends=True)
    (tmp_path / JOURNAL).write_bytes(b"".join(lines[: len(lines) - lost_lines]))
    (seen,) = Record.read(tmp_path).trials
    assert (seen.status, len(seen.attempts)) == (("diverged", 0) if lost_lines else ("unfinished", 1))


def test_a_stop_of_the_attempt_before_stops_no_other(tmp_path: Path) -> None:
    record = scored(tmp_path, "max", [[0.1]], "failed")
    record.note_steered(Steered(["stop", "0"], time=record.trials[0].start))
    record.open_again(0, kept_epochs=0, why="retried by the user")
    assert not record.is_to_stop(0)
    record.note_steered(Steered(["stop", "0"], time=record.trials[0].start + 1))
    assert (record.is_to_stop(0), record.why_stopped(0)) == (True, "stopped by the user")


def test_hours_that_an_earlier_attempt_has_taken_count(tmp_path: Path) -> None:
    record = new_record(tmp_path, trials=1)
    record.report(0, 1, 0.1, {}, 3.0)
    record.report(0, 2, 0.1, {}, 5.0)
    record.end(0, "failed")
    record.open_again(0, kept_epochs=1, why="retried by the user")
    record.report(0, 2, 0.1, {}, 7.0)
    for seen in (record, Record.read(tmp_path)):
        (trial,) = seen.trials
        assert (trial.seconds, trial.spent_seconds, trial.spent_epochs) == (10.0, 15.0, 3)


def test_optuna_sees_a_sane_study(tmp_path: Path) -> None:
    record = scored(tmp_path, "max", [[0.1], [0.2]], "failed")
    record.open_again(0, kept_epochs=0, why="retried by the user")
    propose(record, {"lr": 9.0})
    plain = optuna_trials(tmp_path)
    assert [trial.number for trial in plain] == [0, 1, 2, 3]
    assert [trial.state for trial in plain] == [TrialState.FAIL] * 2 + [TrialState.RUNNING] * 2
