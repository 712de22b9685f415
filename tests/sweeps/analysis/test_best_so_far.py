"""The best score of a sweep as it went on, by what was spent for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.analysis.best_so_far import best_so_far
from sweeps.record.record import Record
from tests.conftest import propose


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
