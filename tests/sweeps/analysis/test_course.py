"""How a sweep went: the best score by what was spent, the rungs, and why trials failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweeps.analysis.course import at_rungs, best_so_far, causes_of
from sweeps.analysis.report import report_tables, sections
from sweeps.analysis.sweep import Sweep
from sweeps.record.record import Record
from sweeps.record.trials import Pause, TrialRow
from tests.conftest import propose

SETTINGS = {"scheduler": "halving", "max_epochs": 9, "grace_epochs": 3, "reduction_factor": 3}


def record_of(folder: Path, mode: Any = "max", **settings: Any) -> Record:
    folder.mkdir(exist_ok=True)
    identity = {"settings": {**SETTINGS, **settings}}
    return Record.create(folder, "s", mode, {"metric": "m", "max_epochs": 9, "identity": identity})


def train(record: Record, scores: dict[int, float], wait_s: float = 0.0, status: Any = "finished") -> None:
    """A trial of one-second epochs, which waits at epoch 3."""
    number, last = propose(record, {}).number, max(scores)
    for epoch in range(1, last + 1):
        record.report(number, epoch, scores.get(epoch, 0.0), {}, 1.0)
        row = record.trials[number].epochs[epoch]
        if epoch == 3 and wait_s:
            record.trials[number].pauses[3] = Pause(3, row.time, row.time + wait_s if last > 3 else None)
    record.end(number, status)


def test_a_trial_that_waited_is_told_from_one_that_went_on_at_once(tmp_path: Path) -> None:
    record = record_of(tmp_path)
    train(record, {3: 0.9, 9: 0.95})
    train(record, {3: 0.8, 9: 0.9}, wait_s=60.0)
    train(record, {3: 0.7, 9: 0.8}, wait_s=20.0)
    train(record, {3: 0.1}, status="pruned")
    train(record, {3: 0.2}, wait_s=30.0, status="pruned")
    table = report_tables.at_rungs(record)
    columns, rows = table.columns, table.rows
    assert dict(zip(columns, rows[0], strict=True)) == {
        "epoch": "3",
        "reached": "5",
        "continued at once": "1",
        "waited, then continued": "2 for 40 s (median)",
        "stopped": "2, 1 of them after a wait",
        "leaders missed": "not known",
    }


@pytest.mark.parametrize("mode", ["max", "min"])
def test_what_stopping_may_have_cost_follows_from_those_that_went_on(mode: str, tmp_path: Path) -> None:
    """Where ranks stay, a bad trial would not have led; where they do not, each had its chance."""
    sign, early = (1 if mode == "max" else -1), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    late = {"kept": [0.2, 0.31, 0.4, 0.49, 0.6, 0.71], "mixed": [0.9, 0.1, 0.5, 0.9, 0.2, 0.4]}
    leaders = {}
    for name, scores in late.items():
        record = record_of(tmp_path / name, mode)
        for first, last in zip(early, scores, strict=True):
            train(record, {3: sign * first, 9: sign * last})
        for _ in range(4):
            train(record, {3: sign * 0.05}, status="pruned")
        (row,) = at_rungs(record)
        leaders[name] = float(row[-1].removeprefix("about "))
    assert leaders["kept"] == 0.0
    assert 0.2 < leaders["mixed"] < 2.0


def test_without_pruning_there_is_no_rung(tmp_path: Path) -> None:
    record = record_of(tmp_path, scheduler="none")
    train(record, {9: 0.5})
    assert at_rungs(record) == []
    (section,) = [each for each in sections.sections(record) if each.title == "Learning and pruning"]
    assert not any(table.rows for table in section.tables)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Two trials in turns; a third one that fails was the best."""
    record = Record.create(tmp_path, "s", "max", {"metric": "acc", "trainable": "toy"})
    for number in range(3):
        propose(record, {"lr": float(number)})
    for number, epoch, score in [(0, 1, 0.2), (1, 1, 0.1), (0, 2, 0.3), (1, 2, 0.6), (2, 1, 0.9)]:
        record.report(number, epoch, score, {"acc": score}, 1.0)
    record.end(1, "finished")
    record.end(2, "failed", "ValueError")
    record.end(0, "finished")
    return record


def test_by_trials_that_ended_well(record: Record) -> None:
    assert best_so_far(record, "trials") == [(1, 0.6), (3, 0.6)]


def test_by_epochs_and_hours_of_trials_that_did_not_fail(record: Record) -> None:
    assert best_so_far(record, "epochs") == [(1, 0.2), (3, 0.3), (4, 0.6), (5, 0.6)]
    hours = best_so_far(record, "hours")
    assert [score for _, score in hours] == [0.2, 0.3, 0.6, 0.6]
    assert [at for at, _ in hours] == sorted(at for at, _ in hours)


def test_of_many_steps_a_sample_is_kept(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "min", {"metric": "loss", "trainable": "toy"})
    propose(record, {"lr": 1.0})
    for epoch in range(1, 101):
        record.report(0, epoch, 1 / epoch, {"loss": 1 / epoch}, 1.0)
    assert len(best_so_far(record, "epochs")) == 101
    found = best_so_far(record, "epochs", most=10)
    assert len(found) == 11
    assert (found[0], found[-1]) == ((1, 1.0), (100, 0.01))


def test_nothing_of_a_sweep_without_an_epoch(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "acc", "trainable": "toy"})
    assert best_so_far(record, "epochs") == best_so_far(record, "trials") == []


def test_trials_that_went_wrong_are_grouped_by_cause(sweeps: dict[str, Sweep]) -> None:
    found = causes_of(sweeps["troubled"].record.trials)
    assert [(cause.status, cause.reason, len(cause.trials)) for cause in found] == [
        ("diverged", "acc was nan in epoch N", 10),
        ("failed", "OSError: <no space>", 1),
    ]


def test_an_error_is_one_cause_in_whatever_worker_it_shows_first() -> None:
    reasons = ("OSError: no file", "OSError: no file (in another worker, on pc2)")
    trials = tuple(TrialRow(n, {}, 0, 0.0, status="failed", reason=each) for n, each in enumerate(reasons))
    (cause,) = causes_of(trials)
    assert (cause.reason, cause.trials) == ("OSError: no file", trials)
