"""What a report says of the rungs: who waited, who was stopped, and what that may have cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweeps.analysis.pruning import at_rungs
from sweeps.analysis.report import report_tables, sections
from sweeps.analysis.sweep import Sweep
from sweeps.record.record import Record
from sweeps.record.trials import Pause
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
    table = report_tables.at_rungs(Sweep(record))
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
    (section,) = [each for each in sections.sections(Sweep(record)) if each.title == "Learning and pruning"]
    assert not any(table.rows for table in section.tables)
