"""Sweeps loaded, laid side by side, printed; and whatever else may lie where a sweep is looked for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection

from sweeps import results
from sweeps.analysis import comparison
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.tables import TRIALS_FILE, write_tables
from sweeps.config.sweep_folder import JOURNAL
from sweeps.record import lock
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record
from tests.conftest import ROOT, propose


def make(folder: Path, scores: list[list[float]], mode: str = "max", **about: object) -> Record:
    """A record on disk: a finished trial for each list of scores, an epoch for each of them."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {"sweep": folder.name, "trainable": "digits_mlp", "metric": "val_acc", **about}
    record = Record.create(folder, folder.name, mode, known)
    with record.together():
        for number, of_trial in enumerate(scores):
            propose(record, {"lr": 0.1 + number}, trainable="digits_mlp", seed=number)
            for epoch, score in enumerate(of_trial, start=1):
                record.report(number, epoch, score, {"val_acc": score}, 36.0)
            record.end(number, "finished")
    return record


def command(*arguments: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """`python -m sweeps.results ...` as it is typed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    typed = [sys.executable, "-m", "sweeps.results", *map(str, arguments)]
    return subprocess.run(typed, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60)


def test_a_loaded_sweep_has_its_tables_and_its_record(tmp_path: Path) -> None:
    make(tmp_path / "a", [[0.1, 0.2], [0.3]])
    sweep = analysis_sweep.load(tmp_path / "a")
    assert (sweep.folder, sweep.about["metric"]) == (tmp_path / "a", "val_acc")
    assert (sweep.trials.num_rows, sweep.epochs.num_rows, len(sweep.record.trials)) == (2, 3, 2)
    assert sweep.trials is sweep.trials  # made once


def test_the_command_has_the_functions_that_notebooks_use(tmp_path: Path) -> None:
    make(tmp_path / "a", [[0.1, 0.2], [0.3]])
    sweep = results.load(tmp_path / "a")
    assert sweep.trials.num_rows == 2
    assert results.compare([sweep, tmp_path / "a"])["name"].to_pylist() == ["a", "a"]


def test_the_best_trial_is_the_one_that_the_record_names(tmp_path: Path) -> None:
    make(tmp_path / "a", [[0.1, 0.9, 0.5], [0.3]])
    best = analysis_sweep.load(tmp_path / "a").best()
    assert best is not None
    found = (best.number, best.trainable, dict(best.params), best.score, best.epoch, best.seed)
    assert found == (0, "digits_mlp", {"lr": 0.1}, 0.9, 2, 0)


@pytest.mark.parametrize(("mode", "number"), [("max", 1), ("min", 0)])
def test_while_no_trial_ended_the_best_is_of_those_that_train(mode: str, number: int, tmp_path: Path) -> None:
    record = make(tmp_path, [], mode)
    for score in (0.2, 0.4):
        propose(record, {"lr": score}, trainable="digits_mlp")
        record.report(len(record.trials) - 1, 1, score, {"val_acc": score}, 1.0)
    best = analysis_sweep.load(tmp_path).best()
    assert best is not None
    assert best.number == number
    record.end(1 - number, "finished")
    ended = analysis_sweep.load(tmp_path).best()
    assert ended is not None
    assert ended.number == 1 - number


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
        "failed": 0,
        "diverged": 0,
        "unfinished": 0,
        "metric": "val_acc",
        "mode": "max",
        "best_trial": 0,
        "best_score": 0.7,
        "confirmed_score": None,
        "test_score": 0.65,
        "epochs": 3,
        "trained_hours": pytest.approx(0.03),
        "parents": [parent],
    }
    assert rows[0]["trainable"] == "digits_mlp, x.y"
    assert (rows[0]["best_score"], rows[0]["test_score"], rows[0]["parents"]) == (1.0, None, [])
    assert [rows[0][status] for status in ("trials", "finished", "diverged", "unfinished")] == [4, 2, 1, 1]


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


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("finished", "finished"),
        ("out of time", "out of time"),
        ("interrupted", "interrupted"),
        ("lost", "interrupted"),
        ("unfinished", "interrupted"),
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


def test_the_command_prints_sweeps_oldest_first_in_a_line_each_without_colour(tmp_path: Path) -> None:
    for name, started in (("younger", 2e9), ("older", 1e9)):
        record = make(tmp_path / "results" / name, [[0.1, 0.25]])
        record.note("started", started)
        record.note("outcome", "finished")
    record.note("parents", [{"name": "wide", "folder": "results/wide", "started": 5.0}])
    done = command(cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    header, *lines = [line.split() for line in done.stdout.splitlines()]
    assert header == ["name", "date", "trainable", "status", "trials", "best", "hours", "parent"]
    assert [line[0] for line in lines] == ["older", "younger"]
    assert lines[0][3:] == ["digits_mlp", "finished", "1", "val_acc", "0.25", "0.00", "wide"]
    assert "\x1b" not in done.stdout


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


def test_what_is_no_sweep_is_named_in_a_line_and_ends_nothing(tmp_path: Path) -> None:
    make(tmp_path / "good", [[0.5]])
    make(tmp_path / "many" / "one", [[0.5]])
    (tmp_path / "fit").mkdir()
    (tmp_path / "fit" / "fit.yaml").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.txt").touch()
    names = ("a.txt", "empty", "fit", "good", "goood", "many")
    done = command(*names, cwd=tmp_path)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr.splitlines() == [
        "a.txt: not a folder. Existing sweeps: good",
        f"empty: not a sweep: {JOURNAL} is missing. Existing sweeps: good",
        "fit: a single run of sweeps fit, not a sweep. Existing sweeps: good",
        "goood: no such folder. Did you mean 'good'?",
        "many: a folder of sweeps, not a sweep. Give one of many/one",
    ]


def test_without_a_sweep_the_exit_status_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = command("nothing", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == ["nothing: no such folder.", "error: no sweep in 1 place"]
    monkeypatch.chdir(tmp_path)
    assert results.main([]) == 2
    assert capsys.readouterr().err.startswith("error: no sweep in results/ here: give folders")
    assert results.main(["--jsn"]) == 2
    assert "--jsn: no such flag. Did you mean '--json'?" in capsys.readouterr().err


def test_the_command_answers_in_json_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "a", [[0.5, 0.6]])
    assert results.main([str(tmp_path / "a"), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["best_score"], row["epochs"]) == ("a", 0.6, 2)
    assert datetime.fromisoformat(row["date"]).tzinfo is not None


# What may be wrong with a record.


def test_a_folder_that_is_no_sweep_is_named(tmp_path: Path) -> None:
    make(tmp_path / "good", [[0.5]])
    (tmp_path / "empty").mkdir()
    for name, why in (
        ("empty", f"empty: not a sweep: {JOURNAL} is missing. Existing sweeps: .*/good"),
        ("godo", "godo: no such folder. Did you mean '.*/good'"),
        ("", "a folder of sweeps, not a sweep. Give one of .*/good"),
    ):
        with pytest.raises(FileNotFoundError, match=why):
            analysis_sweep.load(tmp_path / name)


def test_a_record_that_is_cut_in_a_line_reads_up_to_it(tmp_path: Path) -> None:
    make(tmp_path, [[0.1, 0.2], [0.3, 0.4]])
    whole = (tmp_path / JOURNAL).read_bytes()
    last = whole.rstrip(b"\n").rindex(b"\n") + 1
    for length in (last + 1, last + 20, len(whole) - 1):
        (tmp_path / JOURNAL).write_bytes(whole[:length])
        trials = analysis_sweep.load(tmp_path).record.trials
        assert [trial.status for trial in trials] == ["finished", "unfinished"]
        assert (tmp_path / JOURNAL).read_bytes() == whole[:length]  # it may be being written
    inside = whole[: whole.index(b'"params"') + 12]
    (tmp_path / JOURNAL).write_bytes(inside)
    assert analysis_sweep.load(tmp_path).trials.num_rows == 0


def test_wherever_a_record_is_cut_it_reads_or_is_no_sweep_yet(tmp_path: Path) -> None:
    make(tmp_path, [[0.1], [0.2]])
    whole = (tmp_path / JOURNAL).read_bytes()
    begun = whole.index(b'"mode"')
    for length in range(0, len(whole), 7):
        (tmp_path / JOURNAL).write_bytes(whole[:length])
        try:
            assert analysis_sweep.load(tmp_path).trials.num_rows <= 2
        except (FileNotFoundError, RecordUnreadable):
            assert length < begun + 100


@pytest.mark.parametrize("damage", [b"\x00\x00\n", b'{"op_code":8\n', b"17\n", b'{"op_code":99}\n'])
def test_damage_inside_a_record_is_named(
    damage: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, [[0.1, 0.2]])
    lines = (tmp_path / JOURNAL).read_bytes().splitlines(keepends=True)
    lines[8] = damage
    (tmp_path / JOURNAL).write_bytes(b"".join(lines))
    named = "damaged" if b"99" in damage else "line 9 is damaged, and intact lines follow it"
    with pytest.raises(RecordUnreadable, match=f"{JOURNAL}: {named}"):
        analysis_sweep.load(tmp_path)
    assert results.main([str(tmp_path)]) == 2
    assert named in capsys.readouterr().err.replace("\n", " ")


def test_an_end_of_several_damaged_lines_says_what_mends_it(tmp_path: Path) -> None:
    make(tmp_path, [[0.1]])
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(b"garbage\n{\n\x00\x00")
    with pytest.raises(RecordUnreadable, match=r"its last 12 bytes are damaged; the sweep's --resume rem"):
        analysis_sweep.load(tmp_path)
    Record.reopen(tmp_path)
    assert analysis_sweep.load(tmp_path).trials.num_rows == 1


def test_a_record_whose_lines_do_not_belong_together_is_named(tmp_path: Path) -> None:
    make(tmp_path, [[0.1]])
    lines = (tmp_path / JOURNAL).read_bytes().splitlines(keepends=True)
    lines = [line for line in lines if b'"format"' not in line and b'"mode"' not in line]
    (tmp_path / JOURNAL).write_bytes(b"".join(lines))
    with pytest.raises(RecordUnreadable, match="this is an Optuna journal, but not the record of a sweep"):
        analysis_sweep.load(tmp_path)


def test_a_trial_of_another_program_in_the_record_is_named(tmp_path: Path) -> None:
    make(tmp_path, [[0.1]])
    JournalStorage(JournalFileBackend(str(tmp_path / JOURNAL))).create_new_trial(0)
    with pytest.raises(RecordUnreadable, match=r"lines are missing \(KeyError: 'params'\)"):
        analysis_sweep.load(tmp_path)


def test_a_journal_of_another_program_is_no_sweep(tmp_path: Path) -> None:
    storage = JournalStorage(JournalFileBackend(str(tmp_path / JOURNAL)))
    storage.create_new_study([StudyDirection.MAXIMIZE], "theirs")
    with pytest.raises(RecordUnreadable, match="not the record of a sweep"):
        analysis_sweep.load(tmp_path)


def test_a_table_that_is_half_written_changes_nothing(tmp_path: Path) -> None:
    record = make(tmp_path, [[0.1, 0.2], [0.3]])
    before = analysis_sweep.load(tmp_path).trials
    write_tables(record, tmp_path)
    content = (tmp_path / TRIALS_FILE).read_bytes()
    (tmp_path / TRIALS_FILE).write_bytes(content[: len(content) // 2])
    (tmp_path / f".{TRIALS_FILE}.part").write_bytes(content[:10])
    assert analysis_sweep.load(tmp_path).trials.equals(before)
    assert analysis_sweep.compare([tmp_path])["best_score"].to_pylist() == [0.3]
    assert results.main([str(tmp_path)]) == 0


def test_a_sweep_without_a_trial_that_ended_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = make(tmp_path, [])
    propose(record, {"lr": 0.1})
    record.end(0, "failed", "ValueError: no")
    sweep = analysis_sweep.load(tmp_path)
    assert sweep.best() is None
    (row,) = analysis_sweep.compare([sweep]).to_pylist()
    assert (row["best_score"], row["failed"], row["epochs"]) == (None, 1, 0)
    assert results.main([str(tmp_path)]) == 0
    assert " none " in capsys.readouterr().out


@pytest.mark.parametrize("scores", [[[0.5]], [[0.5, 0.5], [0.5], [0.5]]], ids=["single trial", "constant"])
def test_a_single_trial_and_a_constant_metric_have_a_best_one(
    scores: list[list[float]], tmp_path: Path
) -> None:
    make(tmp_path, scores)
    best = analysis_sweep.load(tmp_path).best()
    assert best is not None
    assert (best.number, best.epoch, list(best.params)) == (0, 1, ["lr"])  # one hyperparameter


def test_a_folder_that_was_copied_without_its_lock_reads(tmp_path: Path) -> None:
    make(tmp_path / "a", [[0.5]])
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert analysis_sweep.compare([tmp_path / "b"])["name"].to_pylist() == ["a"]


@pytest.mark.slow
def test_ten_thousand_trials_are_read(tmp_path: Path) -> None:
    make(tmp_path, [[number / 10_000] for number in range(10_000)])
    sweep = analysis_sweep.load(tmp_path)
    assert (sweep.trials.num_rows, sweep.epochs.num_rows) == (10_000, 10_000)
    assert "10000" in command(tmp_path).stdout
