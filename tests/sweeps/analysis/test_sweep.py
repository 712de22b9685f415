"""A sweep that is loaded, and what else may lie where one is looked for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection

from sweeps.analysis import sweep as analysis_sweep
from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record
from tests.conftest import propose
from tests.support.scored import make


def test_a_loaded_sweep_has_its_tables_and_its_record(tmp_path: Path) -> None:
    make(tmp_path / "a", [[0.1, 0.2], [0.3]])
    sweep = analysis_sweep.load(tmp_path / "a")
    assert (sweep.folder, sweep.about["metric"]) == (tmp_path / "a", "val_acc")
    assert (sweep.trials.num_rows, sweep.epochs.num_rows, len(sweep.record.trials)) == (2, 3, 2)
    assert sweep.trials is sweep.trials  # made once


def test_the_best_trial_is_the_one_that_the_record_names(tmp_path: Path) -> None:
    make(tmp_path / "a", [[0.1, 0.9, 0.5], [0.3]])
    best = analysis_sweep.load(tmp_path / "a").best()
    assert best is not None
    found = (best.number, best.trainable, dict(best.params), best.score, best.epoch, best.seed)
    assert found == (0, "digits_mlp", {"lr": 0.1}, 0.9, 2, 0)


@pytest.mark.parametrize(("mode", "number"), [("max", 1), ("min", 0)])
def test_a_trial_that_trains_may_be_the_best(mode: str, number: int, tmp_path: Path) -> None:
    record = make(tmp_path, [], mode)
    for score in (0.2, 0.4):
        propose(record, {"lr": score}, trainable="digits_mlp")
        record.report(len(record.trials) - 1, 1, score, {"val_acc": score}, 1.0)
    best = analysis_sweep.load(tmp_path).best()
    assert best is not None
    assert (best.number, best.status) == (number, "unfinished")
    record.end(1 - number, "finished")
    assert analysis_sweep.load(tmp_path).best() == best
    record.end(number, "pruned")
    ended = analysis_sweep.load(tmp_path).best()
    assert ended is not None
    assert (ended.number, ended.status) == (number, "pruned")


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


def test_an_end_of_several_damaged_lines_is_left_out_and_a_resume_removes_it(tmp_path: Path) -> None:
    make(tmp_path, [[0.1]])
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(b"garbage\n{\n\x00\x00")
    assert analysis_sweep.load(tmp_path).trials.num_rows == 1
    assert Record.reopen(tmp_path).cut_bytes == 12
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
    with pytest.raises(RecordUnreadable, match=r"lines are missing \(TypeError: .*'params' and 'seed'\)"):
        analysis_sweep.load(tmp_path)


def test_a_journal_of_another_program_is_no_sweep(tmp_path: Path) -> None:
    storage = JournalStorage(JournalFileBackend(str(tmp_path / JOURNAL)))
    storage.create_new_study([StudyDirection.MAXIMIZE], "theirs")
    with pytest.raises(RecordUnreadable, match="not the record of a sweep"):
        analysis_sweep.load(tmp_path)


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
