"""Sweeps side by side, in a table and on the screen."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from sweeps.analysis import comparison
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.report import page, sentences
from sweeps.record import lock
from sweeps.record.sweep_info import HeldOutScore
from tests.conftest import propose
from tests.support.scored import make


def test_sweeps_stand_side_by_side_in_the_order_given(tmp_path: Path) -> None:
    parent = {"name": "wide", "folder": "results/wide", "started": 5.0}
    a = make(tmp_path / "a", [[0.1, 0.7], [0.3]], parents=[parent])
    a.note("outcome", "finished")
    a.note("test", {"trial": 0, "test_acc": 0.65, "test_loss": 1.0})
    b = make(tmp_path / "b", [[2.0], [1.0]], "min", trainable=["digits_mlp", "x.y"], metric="val_loss")
    propose(b, {"lr": 1.0})
    b.end(2, "diverged", "nan")
    propose(b, {"lr": 2.0})
    rows = analysis_sweep.compare(
        [tmp_path / "b", analysis_sweep.load(tmp_path / "a"), str(tmp_path / "b")]
    ).to_pylist()
    assert [row["name"] for row in rows] == ["b", "a", "b"]
    row = rows[1]
    assert isinstance(row.pop("date"), datetime)
    assert row.pop("elapsed_hours") == pytest.approx(a.elapsed_s / 3600, abs=0.01)
    assert row == {
        "name": "a",
        "folder": str(tmp_path / "a"),
        "trainable": "digits_mlp",
        "status": "finished",
        "trials": 2,
        "finished": 2,
        "pruned": 0,
        "stopped": 0,
        "failed": 0,
        "diverged": 0,
        "infeasible": 0,
        "unfinished": 0,
        "metric": "val_acc",
        "mode": "max",
        "objectives": ["val_acc:max"],
        "front": None,
        "best_trial": 0,
        "best_score": 0.7,
        "confirmed_score": None,
        "test_score": 0.65,
        "epochs": 3,
        "trained_hours": pytest.approx(0.03),
        "parents": [parent],
        "note": None,
        "tags": [],
    }
    assert rows[0]["trainable"] == "digits_mlp, x.y"
    assert (rows[0]["best_score"], rows[0]["test_score"], rows[0]["parents"]) == (1.0, None, [])
    assert [rows[0][status] for status in ("trials", "finished", "diverged", "unfinished")] == [4, 2, 1, 1]


def test_a_test_score_is_told_of_the_weights_of_the_best_trial_alone(tmp_path: Path) -> None:
    """Not that of a trial that led before the sweep went on, of an epoch before it trained for longer, or of
    an attempt before it was trained again."""
    record = make(tmp_path, [[0.1, 0.7], [0.3]])
    best, other = record.trials

    def is_told(number: int, reported: float) -> bool:
        record.note_test(HeldOutScore(number, {"test_acc": 0.65}, reported))
        (score,) = analysis_sweep.compare([tmp_path])["test_score"].to_pylist()
        assert ("On the test rows" in sentences.result(record)) is (score == 0.65)
        return bool(score == 0.65)

    assert is_told(0, best.epochs[2].time)
    assert not is_told(1, other.epochs[1].time)
    assert not is_told(0, best.epochs[1].time)
    record.open_again(0, 1, "by --retry")
    record.report(0, 2, 0.7, {"val_acc": 0.7}, 1.0)
    record.end(0, "finished")
    assert not is_told(0, best.epochs[2].time)
    assert is_told(0, record.trials[0].epochs[2].time)


def test_a_best_trial_that_was_rerun_shows_its_mean(tmp_path: Path) -> None:
    record = make(tmp_path, [[0.1], [0.9]])
    record.note("confirm", {"top": 1, "seeds": 2})
    for seed, score in ((5, 0.6), (6, 0.7)):
        rerun = record.begin(record.trials[1].point, record.trials[1].optuna, seed, confirms=1)
        record.report(rerun.number, 1, score, {"val_acc": score}, 1.0)
        record.end(rerun.number, "finished")
    rows = analysis_sweep.compare([tmp_path])
    assert (rows["best_score"].to_pylist(), rows["trials"].to_pylist()) == ([0.9], [2])
    assert rows["confirmed_score"].to_pylist() == [pytest.approx(0.65)]
    assert "val_acc 0.65 (mean)" in comparison.printed(rows, None)


def test_the_best_trial_is_known_where_the_storage_of_its_reruns_is_gone(tmp_path: Path) -> None:
    record = make(tmp_path, [[0.1], [0.9]])
    rerun = record.begin(record.trials[1].point, record.trials[1].optuna, 5, confirms=1)
    record.report(rerun.number, 1, 0.6, {"val_acc": 0.6}, 1.0)
    record.end(rerun.number, "finished")
    (tmp_path / "sweep.yaml").write_text("storage: /mnt/none\n")
    best = analysis_sweep.load(tmp_path).best()
    assert best is not None
    assert (best.number, best.run, best.score) == (1, 1, 0.9)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("finished", "finished"),
        ("out of time", "out of time"),
        ("interrupted", "interrupted"),
        ("lost", "interrupted"),
        ("running", "interrupted"),
        (None, "interrupted"),
    ],
)
def test_a_sweep_is_running_while_its_process_lives(outcome: str, status: str, tmp_path: Path) -> None:
    record = make(tmp_path, [[0.1]])
    if outcome is not None:
        record.note("outcome", outcome)
    with lock.held(tmp_path):
        assert analysis_sweep.compare([tmp_path])["status"].to_pylist() == ["running"]
    assert analysis_sweep.compare([tmp_path])["status"].to_pylist() == [status]


def test_a_name_that_is_no_utf8_costs_no_table_and_no_report(tmp_path: Path) -> None:
    folder = tmp_path / "caf\udce9"
    make(
        folder,
        [[0.1]],
        tags=["th\udce9"],
        parents=[{"name": "th\udce9", "folder": "results/th\udce9", "started": 5.0}],
    )
    row = analysis_sweep.compare([folder]).to_pylist()[0]
    assert row["folder"].endswith("/caf\\udce9")
    assert row["tags"] == [row["parents"][0]["name"]] == ["th\\udce9"]
    assert "caf\\udce9" in page.write(analysis_sweep.load(folder).record).read_text()


def test_on_a_narrow_screen_each_sweep_has_two_lines(tmp_path: Path) -> None:
    name = "fashion_cnn-20261121-185505"
    make(tmp_path / name, [[0.123456]], parents=[{"name": "wide-" + name, "folder": "x", "started": 1.0}])
    rows = analysis_sweep.compare([tmp_path / name])
    header, line = comparison.printed(rows, 200).splitlines()
    assert len(line) > 80
    assert header.index("parent") == line.index("wide-")
    narrow = comparison.printed(rows, 80).splitlines()
    assert narrow[2] == f"{name} (from wide-{name})"
    assert narrow[3].split()[2:] == ["digits_mlp", "interrupted", "1", "val_acc", "0.1235", "0.00"]
    assert max(map(len, narrow)) <= 80


def test_a_command_is_shown_by_its_first_words(tmp_path: Path) -> None:
    words = "python train.py --lr {lr} --width {width} --depth {depth} --epochs {max_epochs}"
    make(tmp_path / "a", [[0.5]], trainable=f"command:{words}")
    rows = analysis_sweep.compare([tmp_path / "a"])
    assert "  `python train.py --lr {lr} --width {width} --depth ...`  " in comparison.printed(rows, None)
    assert rows.to_pylist()[0]["trainable"] == f"command:{words}", "a program reads the whole one"
