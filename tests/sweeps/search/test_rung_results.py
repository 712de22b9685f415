"""Scores at the rungs, in the order in which they came, each of them once."""

from __future__ import annotations

import math
from pathlib import Path

from sweeps.common.objective import Mode
from sweeps.record.record import Record
from sweeps.record.trials import NO_EARLIER, Earlier, EpochRow, TrialRow
from sweeps.search.rung_results import Result, RungResults
from tests.conftest import propose

RUNGS = (1, 3, 9)


def new_record(folder: Path, trials: int, mode: Mode = "max", earlier: Earlier = NO_EARLIER) -> Record:
    record = Record.create(folder, "s", mode, {"metric": "m"}, earlier)
    for number in range(trials):
        propose(record, {"lr": number})
    return record


def report(record: Record, number: int, epoch: int, score: float) -> None:
    record.report(number, epoch, score, {}, 1.0)


def test_only_what_is_new_comes_and_only_at_the_rungs(tmp_path: Path) -> None:
    record = new_record(tmp_path, 2)
    results = RungResults(record, RUNGS)
    assert results.new() == []
    for number, epoch in ((1, 1), (0, 1), (0, 2), (0, 3)):
        report(record, number, epoch, number + epoch / 10)
    assert results.new() == [Result(1, 1, 1.1), Result(0, 1, 0.1), Result(0, 3, 0.3)]
    assert results.new() == []
    report(record, 1, 3, 0.7)
    assert results.new() == [Result(1, 3, 0.7)]


def test_a_larger_score_is_a_better_one_whatever_the_mode(tmp_path: Path) -> None:
    record = new_record(tmp_path, 1, mode="min")
    report(record, 0, 1, 0.25)
    assert RungResults(record, RUNGS).new() == [Result(0, 1, -0.25)]


def test_a_trial_that_diverged_is_the_worst_at_the_first_rung_and_is_told_once(tmp_path: Path) -> None:
    record = new_record(tmp_path, 2)
    results = RungResults(record, RUNGS)
    report(record, 0, 1, 0.5)
    report(record, 0, 2, math.nan)
    record.end(0, "diverged", "m was nan")
    record.end(1, "diverged", "m was nan")
    assert results.new() == [Result(1, 1, -math.inf), Result(0, 1, 0.5), Result(0, 1, -math.inf)]
    assert results.new() == []


def test_trials_of_earlier_sweeps_come_first_and_reruns_not_at_all(tmp_path: Path) -> None:
    known = TrialRow(number=-1, params={"lr": 9}, seed=0, start=0.0, status="finished")
    known.epochs = {1: EpochRow(0.8, {}, 0.0, 0.0), 2: EpochRow(0.9, {}, 0.0, 0.0)}
    record = new_record(tmp_path, 1, earlier=Earlier([known]))
    report(record, 0, 1, 0.5)
    record.end(0, "finished")
    again = record.begin(record.trials[0].point, record.trials[0].optuna, 7, confirms=0)
    report(record, again.number, 1, 0.6)
    propose(record, {"lr": 5})
    report(record, 2, 1, 0.4)
    results = RungResults(record, RUNGS)
    assert results.new() == [Result(0, 1, 0.8), Result(1, 1, 0.5), Result(2, 1, 0.4)]
    assert [results.trials[number].params["lr"] for number in (0, 1, 2)] == [9, 0, 5]
