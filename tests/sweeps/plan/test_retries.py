"""Trials that did not end well are trained again: what is said, what is refused, what a kill leaves."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from sweeps.config.sweep_folder import JOURNAL
from sweeps.plan import folder, retries, run_start
from sweeps.record.record import Record
from tests.sweeps.plan.test_resume import Sweep, look


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return Sweep(tmp_path)


def change_code(sweep: Sweep) -> None:
    """As if the model had been another one when the sweep began."""
    identity = sweep.record.info.identity
    sweep.record.note("identity", {**identity, "code": {**identity["code"], "tests/faulty/toy.py": "before"}})


def test_a_retry_says_what_will_happen_and_what_it_costs(sweep: Sweep) -> None:
    sweep.trial(0.9, 0.9, 0.9, ended="pruned")
    sweep.trial(*[0.9] * 5, ended="failed")
    sweep.checkpoint(1, 3, 4)
    sweep.trial(0.9, math.nan, ended="diverged")
    sweep.checkpoint(2, 1)
    sweep.trial(ended="infeasible")
    said = sweep.look(retry=["failed", "diverged", "3"]).text.strip().splitlines()
    assert said[0] == "Resuming s: 4 trials ended, 3 of them to be trained again, 0 unfinished, 2 to come"
    assert said[2:] == [
        "  Trial 1 (failed) goes on after epoch 4, 1 epoch once more.",
        "  Trial 2 (diverged) starts from its first epoch, 2 epochs once more.",
        "  Trial 3 (infeasible) starts from its first epoch.",
        "  At most 23 epochs, about 23 s of training, 3 of them for the second time; no more disk space than "
        "planned.",
    ]
    record = sweep.resumed(retry=["failed", "diverged", "3"])
    assert [len(trial.epochs) for trial in record.trials] == [3, 4, 0, 0]
    assert [trial.number for trial in record.live] == [1, 2, 3]
    assert sweep.on_disk()[1] == [4, 3]
    assert 2 not in sweep.on_disk(), "it starts anew"


def test_a_finished_sweep_is_resumed_for_a_retry_alone(sweep: Sweep) -> None:
    for _ in range(5):
        sweep.trial(*[0.9] * 9, ended="finished")
    sweep.trial(0.9, ended="failed")
    sweep.record.end_run(run_start.Outcome.FINISHED)
    assert sweep.look().is_finished
    none = sweep.look(retry="diverged")
    assert none.is_finished
    assert none.text.startswith("No trial has diverged.\ns is finished: ")
    assert not sweep.look(retry="failed").is_finished
    record = sweep.resumed(retry="failed")
    assert [trial.number for trial in record.live] == [5]
    assert record.most_trials == 6


@pytest.mark.parametrize(
    ("retry", "match"),
    [
        ("9", r"--retry 9: no such trial; 6 trials have begun, .* trained again: 4"),
        ("0", r"--retry 0: it is finished after 9 epochs; only trials that failed, diverged or are infeas"),
        (["1", "2"], r"--retry 1: it is pruned after 1 epoch; .*\n--retry 2: it has not ended"),
        ("3", r"--retry 3: it reruns trial 0 with a new seed"),
        ("5", r"--retry 5: it is stopped after 1 epoch"),
        ("faild", r"--retry faild: give numbers of trials, or failed, .* Did you mean 'failed'"),
        ("-1", r"--retry -1: give numbers"),
    ],
)
def test_what_can_not_be_trained_again_is_refused_with_the_reason(
    retry: list[str] | str, match: str, sweep: Sweep
) -> None:
    sweep.trial(*[0.9] * 9, ended="finished")
    sweep.trial(0.1, ended="pruned")
    sweep.trial(0.1)
    point = sweep.record.trials[0]
    sweep.record.begin(point.point, point.optuna, seed=7, confirms=0)
    sweep.trial(0.1, ended="failed")
    sweep.trial(0.1, ended="stopped")
    sweep.refuses(match, retry=retry)


def test_a_kill_amid_a_retry_leaves_nothing_half_open(sweep: Sweep) -> None:
    for _ in range(3):
        sweep.trial(0.1, ended="failed")
    whole = sweep.resumed(retry=["0", "1", "2"])
    assert [trial.number for trial in whole.live] == [0, 1, 2]
    lines = (sweep.folder / JOURNAL).read_bytes().splitlines(keepends=True)
    created = [n for n, line in enumerate(lines) if json.loads(line)["op_code"] == 4][-3:]
    for kept in (created[0], created[1], created[2] + 1):
        (sweep.folder / JOURNAL).write_bytes(b"".join(lines[:kept]))
        record = sweep.resumed()
        assert [trial.number for trial in record.live] == [0, 1, 2]
        assert [len(trial.attempts) for trial in record.trials] == [1, 1, 1]
    record.end(1, "failed", "again")
    assert [trial.number for trial in sweep.resumed().live] == [0, 2], "a command is carried out once"
    assert [len(trial.attempts) for trial in sweep.resumed(retry="failed").trials] == [1, 2, 1]


def test_code_that_was_repaired_is_told_apart_from_that_before(sweep: Sweep) -> None:
    sweep.trial(0.9, ended="pruned")
    sweep.trial(0.9, 0.9, ended="failed")
    sweep.checkpoint(1, 2)
    change_code(sweep)
    sweep.refuses("tests/faulty/toy.py: its code", retry="failed")
    text = sweep.look(retry="failed", force=True).text
    assert "Trial 1 (failed) starts from its first epoch, 2 epochs once more." in text
    assert "This mixes trials: 1 trial had other code or data (tests/faulty/toy.py: its code)." in text
    record = sweep.resumed(retry="failed", force=True)
    assert record.codes() == []
    record.report(1, 1, 0.5, {}, 1.0)
    assert record.codes() == Record.read(sweep.folder).codes() == ["1", "2"]


def test_a_repair_needs_no_force_where_all_that_trained_is_trained_again(sweep: Sweep) -> None:
    sweep.trial(0.9, 0.9, ended="failed")
    sweep.trial(ended="failed")
    change_code(sweep)
    sweep.refuses("tests/faulty/toy.py: its code")
    text = sweep.look(retry="failed").text
    assert "Changed since it began: tests/faulty/toy.py: its code" in text
    assert "mixes" not in text
    record = sweep.resumed(retry="failed")
    record.report(0, 1, 0.5, {}, 1.0)
    assert record.codes() == []


def test_a_point_that_misses_a_constraint_before_training_is_left_out(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.trial(ended="infeasible")
    plan = sweep.to_resume(retry="infeasible")
    object.__setattr__(
        plan, "refusal", lambda point: run_start.Ending("infeasible", "size_m 7 misses size_m<=5")
    )
    assert "1 infeasible trial left out: a constraint is missed without training." in look(plan).text
    with folder.opened(plan) as record:
        assert retries.asked(plan, record, ["infeasible"], "--retry").kept_epochs == {}
