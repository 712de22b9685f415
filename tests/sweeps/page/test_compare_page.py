"""Sweeps and trials side by side: what is shown of each, and what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweeps.page.sweep import compare_page
from sweeps.page.sweep.compare_page import ComparedTable
from sweeps.record.record import Record
from tests.conftest import propose

SETTINGS = {"trainable": "toy", "scheduler": "asha", "max_epochs": 9}


def recorded(folder: Path, lrs: list[float], **settings: Any) -> Record:
    """A sweep with a trial for each of these, of which the greatest is best."""
    folder.mkdir()
    identity = {"settings": {**SETTINGS, "name": folder.name, "num_trials": len(lrs), **settings}}
    about = {"sweep": folder.name, "metric": "acc", "trainable": "toy", "identity": identity}
    record = Record.create(folder, folder.name, "max", about)
    for number, lr in enumerate(lrs):
        propose(record, {"lr": lr}, trainable="toy")
        record.report(number, 1, lr, {"acc": lr, "loss": 1 - lr}, 1.0)
        record.end(number, "finished")
    return record


@pytest.fixture
def records(tmp_path: Path) -> list[Record]:
    first = recorded(tmp_path / "first", [0.1, 0.2, 0.3])
    return [first, recorded(tmp_path / "second", [0.1, 0.9], ranges={"lr": "1e-3..1e-2:log"})]


def named(tables: list[ComparedTable], title: str) -> dict[str, tuple[list[str], bool]]:
    (table,) = [table for table in tables if table.title == title]
    return {row.name: ([*row.values], row.differs) for row in table.rows}


def test_sweeps_side_by_side_tell_what_differs_first(records: list[Record]) -> None:
    tables = compare_page.sweep_tables(records)
    assert named(tables, "Results")["trials"] == (["3", "2"], True)
    assert named(tables, "Results")["objective"][1] is False
    settings = named(tables, "Settings that were given")
    assert settings["num trials"] == (["3", "2"], True)
    assert settings["ranges"] == (["-", "lr=1e-3..1e-2:log"], True)
    assert settings["scheduler"] == (["asha", "asha"], False)
    assert "name" not in settings
    differ = [differs for _, differs in settings.values()]
    assert differ == sorted(differ, reverse=True)
    assert named(tables, "Hyperparameters of the best trial")["lr"] == (["0.3", "0.9"], True)


def test_trials_of_several_sweeps_are_compared(records: list[Record]) -> None:
    first, second = records
    tables = compare_page.trial_tables(
        [(first, first.trials[0]), (first, first.trials[2]), (second, second.trials[0])]
    )
    assert named(tables, "Results")["sweep"] == (["first", "first", "second"], True)
    assert named(tables, "Results")["last loss"] == (["0.9", "0.7", "0.9"], True)
    assert named(tables, "Results")["epochs"][1] is False
    assert named(tables, "Hyperparameters")["lr"] == (["0.1", "0.3", "0.1"], True)


def test_a_trial_stands_beside_the_best_one(records: list[Record]) -> None:
    first, _ = records
    assert [row.values for row in compare_page.beside_best(first, first.trials[0]).rows] == [["0.1", "0.3"]]
    assert [row.values for row in compare_page.beside_best(first, first.trials[2]).rows] == [["0.3"]]
