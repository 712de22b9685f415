"""What a report says in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.advice import advise
from sweeps.analysis.report import report_tables, sentences
from sweeps.record import lock
from sweeps.record.sweep_info import Run
from tests.support.kinds import add, begun, drawn
from tests.support.reports import page_of, words_of
from tests.support.weighed import FRONT, weighed


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("empty", ["no trial has started", "No trial has ended well."]),
        ("single", ["is the best: acc", "Each trial was trained with one seed", "1 trial with a score"]),
        ("one_hyperparameter", ["Only one hyperparameter was varied"]),
        ("constant", ["All 24 trials have the same score", "has the same score as trial"]),
        ("running", ["The sweep is interrupted: 8 trials", "2 unfinished", "6 at epoch 3"]),
        ("failed_only", ["4 failed RuntimeError: out of memory at <step N>"]),
        ("pruned", ["The sweep is finished: 30 trials (26 pruned, 4 finished)", "Pruning saved 196 epochs"]),
        ("troubled", ["10 diverged acc was nan in epoch N"]),
        ("several", ["The sweep trained cnn and mlp to maximize acc", "trial trainable status acc"]),
        (
            "several",
            ["among the best of its trainable. mlp: the best 25 % (PED-ANOVA), by scores at epoch 3"],
        ),
    ],
)
def test_the_page_says_what_came_of_a_sweep(kind: str, words: list[str], folders: dict[str, Path]) -> None:
    said = words_of(page_of(folders[kind]))
    for word in words:
        assert word in said


def test_trials_that_failed_are_counted_with_the_most_common_reason(tmp_path: Path) -> None:
    record = begun(tmp_path)
    for lr in (0.01, 0.02, 0.03):
        add(record, {"lr": lr}, 3)
    for lr in (0.2, 0.3):
        add(record, {"lr": lr}, 0, "failed", "ValueError: too high")
    (told,) = sentences.troubles(analysis_sweep.load(tmp_path).record)
    assert told == "2 of 5 trials did not end well: 2 failed. The most common reason: ValueError: too high."


def test_the_trials_that_the_scheduler_pruned_are_counted(tmp_path: Path) -> None:
    record = begun(tmp_path, identity={"settings": {"searcher": "tpe", "scheduler": "asha"}})
    add(record, {"lr": 0.01}, 9)
    assert "of at most 9 epochs, and no trial was pruned. The seed" in words_of(page_of(tmp_path))
    add(record, {"lr": 0.1}, 3, "pruned")
    said = words_of(page_of(tmp_path))
    assert "proposed 2 trials of at most 9 epochs, and the scheduler asha pruned 1 of them. The seed" in said


def test_the_test_score_and_the_best_params_are_on_the_page(tmp_path: Path) -> None:
    record = begun(tmp_path)
    add(record, {"lr": 0.01}, 3, fixed={"rows": 600})
    record.note("test", {"trial": 0, "test_acc": 0.8765})
    said = words_of(page_of(tmp_path))
    assert "it scored test_acc 0.8765" in said
    assert "lr 0.01 rows 600" in said


def test_rows_that_were_scored_before_are_said_to_be(tmp_path: Path) -> None:
    record = begun(tmp_path)
    add(record, {"lr": 0.01}, 3)
    add(record, {"lr": 0.02}, 1)
    record.note("test", {"trial": 0, "test_acc": 0.8765})
    assert "scored 2 times" not in words_of(page_of(tmp_path)), "a record of before has the last one alone"
    record.note("tests", [{"trial": 1, "test_acc": 0.8}, {"trial": 0, "test_acc": 0.8765}])
    said = words_of(page_of(tmp_path))
    assert "it scored test_acc 0.8765. They were scored 2 times." in said


def test_what_was_asked_is_said_and_whose_data_is_whose(tmp_path: Path) -> None:
    space = {
        "lr of cnn": "0.001 to 1.0, log scale",
        "momentum of mlp": "0.0 to 0.95",
        "v of mlp": "one of v1.0, 2",
    }
    data = {"data of cnn": "images", "data of mlp": "digits", "prepared data of mlp": "0fa3"}
    begun(tmp_path, identity={"space": space, "data": data})
    said = words_of(page_of(tmp_path))
    for word in ("0.001 to 1.0, log scale", "0.0 to 0.95", "one of v1.0, 2"):
        assert word in said
    assert "The data of cnn: images. The data of mlp: digits." in said
    assert "0fa3" not in said


def test_figures_and_next_steps_compare_trials_at_the_same_epoch(tmp_path: Path) -> None:
    record = begun(tmp_path, outcome="finished")
    for number in range(30):
        add(record, drawn(number), 9 if number % 2 else 3, "finished" if number % 2 else "pruned")
    said = words_of(page_of(tmp_path))
    assert "scores at epoch 3, which 30 of 30 trials reached" in said
    assert "Trials are compared at epoch 3, which 30 of 30 trials reached." in said


def test_failures_are_in_the_result_and_their_repair_is_the_first_step(tmp_path: Path) -> None:
    record = begun(tmp_path, outcome="finished", identity={})
    for number in range(4):
        add(record, drawn(number), 3)
    for number in range(4, 8):
        add(record, drawn(number), 0, "unfinished")
        record.end(number, "failed", "ValueError: no room for <b>", f"logs/trial_{number:04d}.log")
    add(record, drawn(8), 1, "diverged", "acc was nan in epoch 1")
    page = page_of(tmp_path)
    said = words_of(page)
    assert (
        "5 of 9 trials did not end well: 4 failed, 1 diverged. The most common reason: ValueError: no room "
        "for <b>." in said
    )
    steps = re.findall(r"<li>(.*?)<pre>(.*?)</pre></li>", page)
    assert [(text, command.split("sweeps ")[-1]) for text, command in steps] == [
        (
            "Repair what 4 of 9 trials failed with: ValueError: no room for &lt;b&gt;.",
            f"cat {tmp_path}/logs/trial_0004.log",
        ),
        (
            "Train what failed again with the repaired code; --force accepts the change.",
            f"run --resume {tmp_path} --retry failed --force",
        ),
    ]


def test_what_was_trained_again_and_with_which_code_is_told(tmp_path: Path) -> None:
    record = begun(tmp_path, outcome="finished", identity={})
    add(record, drawn(0), 2, "finished")
    add(record, drawn(1), 2, "failed", "ValueError: no room")
    moment = max(row.time for trial in record.trials for row in trial.epochs.values())
    record.note("runs", [vars(Run(moment + 1e-6, 2, ["model.py: its code"], True, ["model.py: its code"]))])
    page = page_of(tmp_path)
    assert "sweeps run --resume" in page.partition('id="failures"')[2].partition("</section>")[0]
    record.open_again(1, 0, "retried by the user: it was failed")
    record.report(1, 1, 0.7, {"acc": 0.7}, 1.0)
    record.end(1, "finished")
    said = words_of(page_of(tmp_path))
    assert "The column code has 1 at first, 2 since " in said
    assert "after a change of model.py: its code." in said
    assert "Earlier attempts of trials that were trained again" in said
    assert "1 1 failed ValueError: no room 2" in said


def test_a_sweep_that_runs_has_no_next_step_yet(tmp_path: Path) -> None:
    add(begun(tmp_path, identity={}), drawn(0), 1, "unfinished")
    (tmp_path / ".lock").touch()
    with lock.held(tmp_path):
        said = words_of(page_of(tmp_path))
    assert "Next steps The sweep is running: what is next follows at its end." in said
    assert "Trial 0 is the best so far (still training): acc" in said


def test_where_all_trials_failed_none_is_said_to_have_ended_well(folders: dict[str, Path]) -> None:
    said = words_of(page_of(folders["failed_only"]))
    assert "No trial ended well: 4 of 4 failed, diverged or were infeasible" in said
    assert "yet" not in said.split()
    assert "so far." not in said


def test_a_front_is_told_with_its_knee_and_its_table_has_all_of_it(tmp_path: Path) -> None:
    weighed(tmp_path, [*FRONT, (0.5, 4.0)])
    record = analysis_sweep.load(tmp_path).record
    said = sentences.result(record)
    assert said.startswith("The front of acc and size_m has 3 trials: no trial is better than one of them")
    assert "Trial 1 is the knee, the best compromise: acc 0.85" in said
    table = report_tables.front(record)
    columns, rows = table.columns, table.rows
    assert list(columns) == ["trial", "acc", "size_m", "in epoch", "lr"]
    assert [row[:3] for row in rows] == [["1", "0.85", "2"], ["2", "0.6", "1"], ["0", "0.9", "5"]]
    table = report_tables.ranking(record)
    columns, rows = table.columns, table.rows
    assert list(columns[:4]) == ["trial", "status", "acc", "size_m"]
    assert [row[0] for row in rows] == ["1", "2", "0", "3"]
    assert "to maximize acc and minimize size_m" in sentences.settings(record)[0]


def test_reasons_that_differ_by_a_number_are_one_reason(tmp_path: Path) -> None:
    record = begun(tmp_path)
    add(record, {"lr": 0.01}, 3)
    for epochs in (1, 2, 3):
        add(record, {"lr": 0.1 * epochs}, epochs, "diverged", f"acc was nan in epoch {epochs}")
    for lr in (0.4, 0.5):
        add(record, {"lr": lr}, 1, "failed", "ValueError: too high")
    (told,) = sentences.troubles(analysis_sweep.load(tmp_path).record)
    assert told.endswith("The most common reason: acc was nan in epoch N.")


def test_where_no_trial_ended_well_reasons_that_differ_by_a_number_are_one_too(tmp_path: Path) -> None:
    record = begun(tmp_path)
    for epochs in (1, 2, 3):
        add(record, {"lr": 0.1 * epochs}, epochs, "diverged", f"acc was nan in epoch {epochs}")
    for lr in (0.4, 0.5):
        add(record, {"lr": lr}, 1, "failed", "ValueError: too high")
    assert sentences.result(record).endswith(" The most common reason: acc was nan in epoch N.")
    (basis, *_) = advise(analysis_sweep.load(tmp_path)).basis
    assert "The most common reason is: acc was nan in epoch N (3 times)." in basis
