"""The table of all trials of a sweep: what it sorts, filters and shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.page.sweep.trial_table import ShownTrial, frame_of, rows_of, view_of
from sweeps.page.sweep_summary import training
from sweeps.page.table_view import TablePage
from sweeps.record import lock
from sweeps.record.record import Record
from tests.conftest import propose


def shown(record: Record, **query: str) -> TablePage[ShownTrial]:
    view = view_of(query, record)
    return view.of(rows_of(record), lambda row: row.status, lambda row: row.words)


def numbers(record: Record, **query: str) -> list[int]:
    return [row.trial.number for row in shown(record, **query).rows]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Trial 3 is the best, 1 has failed, 4 has no epoch yet."""
    record = Record.create(tmp_path, "s", "max", {"metric": "acc", "trainable": "toy", "max_epochs": 3})
    for number, (width, score) in enumerate([(8, 0.5), (64, 0.1), ("all", 0.7), (16, 0.9)]):
        propose(record, {"width": width, "lr": 10.0**-number})
        for epoch in range(1, number + 2):
            record.report(number, epoch, score * epoch / (number + 1), {"acc": score}, 0.5)
    record.end(1, "failed", "ValueError: <b>wide</b>")
    record.end(2, "pruned")
    record.end(3, "finished")
    propose(record, {"width": 32, "lr": 1.0})
    return record


def test_the_best_is_first_and_what_has_no_score_last(record: Record) -> None:
    assert numbers(record) == [3, 2, 0, 1, 4]
    assert numbers(record, sort="value.acc") == [1, 0, 2, 3, 4]


def test_any_column_sorts_numbers_before_words(record: Record) -> None:
    assert numbers(record, sort="param.width") == [0, 3, 4, 1, 2]
    assert numbers(record, sort="-param.lr") == [0, 4, 1, 2, 3]
    assert numbers(record, sort="-epochs") == [3, 2, 1, 0, 4]
    assert numbers(record, sort="trial") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("sort", ["nothing", "-param.x", "value.acc;drop", ""])
def test_a_column_that_is_not_there_counts_as_not_given(record: Record, sort: str) -> None:
    assert numbers(record, sort=sort) == numbers(record)


def test_a_large_table_looks_once_whether_its_sweep_runs(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Path] = []

    def is_held(folder: Path) -> bool:
        looks.append(folder)
        return True

    monkeypatch.setattr(lock, "is_held", is_held)
    assert [row.status for row in rows_of(record)].count("training") == 2
    assert [trial.number for trial in training(record)] == [0, 4]
    assert len(looks) == 2


def test_words_and_a_status_filter(record: Record) -> None:
    assert numbers(record, text="width=16") == [3]
    assert numbers(record, text="VALUEERROR wide") == [1]
    assert numbers(record, text="width=16 nothing") == []
    assert numbers(record, status="pruned") == [2]
    found = shown(record, status="failed")
    assert (found.found, found.total) == (1, 5)


def test_a_trial_of_a_sweep_that_runs_trains_or_waits(record: Record) -> None:
    assert {row.status for row in shown(record).rows} == {"finished", "pruned", "failed", "unfinished"}
    with lock.held(record.folder):
        record.note_pause(0)
        statuses = {row.trial.number: row.status for row in shown(record).rows}
        assert (statuses[0], statuses[4]) == ("waiting", "training")


def test_what_changes_in_the_record_changes_in_the_table(record: Record) -> None:
    before = shown(record)
    record.report(4, 1, 1.0, {"acc": 1.0}, 0.5)
    assert numbers(record)[0] == 4
    record.end(4, "finished")
    after = {row.trial.number: row for row in shown(record).rows}
    assert after[4].status == "finished"
    assert all(row in before.rows for number, row in after.items() if number != 4)


def test_a_page_holds_a_hundred_trials(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "min", {"metric": "loss", "trainable": "toy"})
    with record.together():
        for number in range(230):
            propose(record, {"lr": float(number)})
            record.report(number, 1, float(number), {"loss": float(number)}, 0.5)
    assert numbers(record) == [*range(100)]
    last = shown(record, page="3")
    assert [row.trial.number for row in last.rows] == [*range(200, 230)]
    assert (last.page, last.pages, last.first, last.found) == (3, 3, 200, 230)
    assert shown(record, page="99").page == 3
    for page in ("0", "-1", "x", "\uff11", ""):
        assert shown(record, page=page).page == 1


def test_a_small_curve_stays_in_its_frame(record: Record) -> None:
    rows = shown(record).rows
    frame = frame_of(record, rows, 90, 24)
    for row in rows:
        scores = [(epoch, each.score) for epoch, each in row.trial.epochs.items()]
        for point in frame.points([*scores, (2, float("nan")), (3, 1e9)]).split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= 90
            assert 0 <= y <= 24
    assert frame.points([]) == ""
    assert rows_of(record)[3].curve_in_words == "acc from 0.225 to 0.9 in 4 epochs"
