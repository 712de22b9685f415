"""How a sweep stands: one word for it on every page, and what goes on with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sweeps.analysis import advice, comparison
from sweeps.analysis.report.report_tables import ranking, space
from sweeps.analysis.report.sentences import result, settings
from sweeps.analysis.sweep import Sweep, load
from sweeps.common.formatting import short
from sweeps.config import cli
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan import folder as plan_folder
from sweeps.plan import run_start
from sweeps.plan.build import make_plan
from sweeps.record import lock, status
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome
from sweeps.record.trials import DEFAULTS
from sweeps.space.point import OptunaPoint, Point
from tests.conftest import propose
from tests.support.kinds import add, begun, drawn, rerun
from tests.support.searched import carried_out, peak


def interrupted(at: Path, trials: int) -> Sweep:
    """A sweep of 12 trials that was killed after some."""
    asked = {"trainable": "digits_mlp", "searcher": "random", "max_epochs": 9, "num_trials": 12}
    plan = make_plan(SweepConfig.from_settings(name="s", results_dir=str(at), **asked))  # type: ignore[arg-type]
    return carried_out(plan, peak(0.1), trials)


def test_a_sweep_that_can_go_on_is_told_so_first_by_a_command_that_is_taken(tmp_path: Path) -> None:
    sweep = interrupted(tmp_path, trials=5)
    (step,) = advice.advise(sweep).steps
    assert step.text == "Resume the sweep: it is interrupted; 0 trials unfinished, 7 to come."
    words = step.command.split()
    assert cli.parse(words[words.index("run") + 1 :]).resume == str(tmp_path / "s")
    words = " ".join(settings(sweep.record))
    assert "proposed 5 of 12 trials" in words
    assert "The sweep is interrupted: 5 trials" in words


def in_confirmation(folder: Path, **about: Any) -> Record:
    """A sweep whose search is through, stopped with 2 of its 9 reruns under way."""
    record = begun(folder, identity={}, planned=[4], confirm={"top": 3, "seeds": 3}, **about)
    for number in range(4):
        add(record, drawn(number), 3)
    for number, seed in record.reruns_to_come()[:2]:
        trial = record.trials[number]
        record.begin(trial.point, trial.optuna, seed, confirms=number)
    return record


def test_reruns_are_called_no_trials(tmp_path: Path) -> None:
    record = in_confirmation(tmp_path, outcome="interrupted")
    assert status.how_far(record) == " in its confirmation; 2 reruns unfinished, 7 to come"
    (step,) = advice.advise(load(tmp_path)).steps
    assert step.text == (
        "Resume the sweep: it is interrupted in its confirmation; 2 reruns unfinished, 7 to come."
    )


def test_a_search_that_goes_on_is_in_no_confirmation(tmp_path: Path) -> None:
    """Of an earlier confirmation a rerun is left; it is no trial of the search."""
    record = in_confirmation(tmp_path, outcome="interrupted")
    record.plan_trials(6)
    add(record, drawn(9), 1, "unfinished")
    assert status.how_far(record) == "; 1 trial unfinished, 1 to come"


def test_a_sweep_without_a_trial_that_ended_is_gone_on_with_and_not_refined(tmp_path: Path) -> None:
    sweep = interrupted(tmp_path, trials=0)
    assert "--resume" in advice.advise(sweep).steps[0].command
    sweep.record.note("outcome", "finished")
    assert advice.advise(sweep).steps == ()


def conditional(at: Path, **more: Any) -> Sweep:
    """A finished sweep of a space that is a function; the largest rate is the best."""
    asked: dict[str, Any] = {"trainable": "fashion_cnn", "search_space": "fashion_cnn_layers"}
    asked |= {"searcher": "random", "max_epochs": 3, "num_trials": 24, "scheduler": "none", **more}
    plan = make_plan(SweepConfig.from_settings(name="s", results_dir=str(at), **asked))
    return carried_out(plan, lambda params: float(params["lr"]))


def test_ranges_of_a_function_are_edited_in_its_file(tmp_path: Path) -> None:
    sweep = conditional(tmp_path)
    advised = advice.advise(sweep)
    file = "search_spaces/fashion_cnn_layers.py"
    (edge,) = [each for each in advised.changes if each.hyperparameter == "lr"]
    assert edge.why.endswith(f"; edit it in {file}")
    assert (
        f"{file} is a function suggest(trial), whose ranges --refine does not change. Edit them there "
        "first; --refine then gives the searcher those of the trials so far that fit."
    ) in advised.basis
    assert (
        f"is the function suggest(trial) in {file}; the table shows ranges of its samples."
        in settings(sweep.record)[0]
    )
    shown = dict(space(sweep.record).rows)
    assert shown["lr"] == "0.001 to 0.3, log scale"
    pattern = r"within 4 to 16 in steps of 2, depending on other hyperparameters, in \d+ % of points"
    assert re.fullmatch(pattern, shown["width_2"])
    written = advice.advise(conditional(tmp_path / "written", search_space="fashion_cnn"))
    assert not [line for line in written.basis if "suggest" in line or "search_spaces" in line]
    assert not [each for each in written.changes if "edit it" in each.why]


def test_a_finished_sweep_is_refined_but_for_one_that_would_be_refused(tmp_path: Path) -> None:
    record = begun(tmp_path, outcome="finished", identity={})
    add(record, drawn(0), 3, "failed", "RuntimeError: no")
    assert not [step for step in advice.advise(load(tmp_path)).steps if "--refine" in step.command]
    add(record, drawn(1), 3)
    for number in range(2, 9):
        add(record, drawn(number), 3)
    assert "--refine" in advice.advise(load(tmp_path)).steps[-1].command


def test_the_word_is_the_same_everywhere_also_for_who_runs_it(tmp_path: Path) -> None:
    sweep = interrupted(tmp_path, trials=2)
    plan = make_plan(
        SweepConfig.from_settings(
            resume=str(sweep.folder),
            name="s",
            results_dir=str(tmp_path),
            num_trials=12,
            trainable="digits_mlp",
            searcher="random",
            max_epochs=9,
        )
    )
    with plan_folder.opened(plan) as record:
        run_start.begin_run(plan, record)
        assert (status.status(record), status.status(Record.read(sweep.folder))) == ("running", "running")
        assert "The sweep is running: 2 trials" in settings(load(sweep.folder).record)[-1]
        record.end_run(Outcome.INTERRUPTED)
        assert status.status(record) == "interrupted", "its own report says what it has just noted"
    again = Record.read(sweep.folder)
    assert comparison.table([again])["status"].to_pylist() == [status.status(again)] == ["interrupted"]


def test_a_resume_after_the_time_was_used_up_asks_for_more(tmp_path: Path) -> None:
    record = begun(tmp_path, outcome="out of time", identity={}, elapsed_s=3600.0)
    assert status.flags_of_resume(record) == ["--time-budget-hours", "2"]
    with lock.held(tmp_path):
        assert not status.can_go_on(record)


@pytest.mark.parametrize("is_confirmed", [False, True])
def test_the_best_is_the_mean_where_there_is_one(is_confirmed: bool, tmp_path: Path) -> None:
    record = begun(tmp_path, confirm={"top": 1, "seeds": 2})
    assert status.best(record) == "no trial ended well"
    add(record, drawn(0), 1, score=lambda epoch: 0.9)
    if is_confirmed:
        rerun(record, 0, 0.6)
        rerun(record, 0, 0.7)
    mean = "acc 0.65 (trial 0, mean of 2 reruns)"
    assert status.best(record) == (mean if is_confirmed else "acc 0.9 (trial 0, epoch 1)")


def test_a_best_trial_that_has_not_ended_is_said_to_be_so(tmp_path: Path) -> None:
    record = begun(tmp_path)
    record.begin(Point("net", {"lr": 0.1}), OptunaPoint(), 1)
    assert status.best(record) == "no trial has a score yet"
    record.report(0, 1, 0.9, {}, 1.0)
    assert status.best(record) == "acc 0.9 (trial 0, epoch 1, unfinished)"
    (tmp_path / ".lock").touch()
    with lock.held(tmp_path):
        assert status.best(record) == "acc 0.9 (trial 0, epoch 1, still training)"
        record.note_pause(0)
        assert status.best(Record.read(tmp_path)) == "acc 0.9 (trial 0, epoch 1, not ended yet)"


def test_why_no_trial_has_a_score_while_some_train(tmp_path: Path) -> None:
    record = begun(tmp_path, objectives=["acc:max"], constraints=["size_m<=5"])
    record.begin(Point("net", {"lr": 0.1}), OptunaPoint(), 1)
    assert status.no_score(record) == "No trial has a score: none has ended its first epoch."
    record.report(0, 1, 0.9, {"acc": 0.9, "size_m": 6.0}, 1.0)
    assert status.no_score(record).startswith(
        "No trial has a score that counts: epochs that miss a constraint or have no finite score"
    )


def with_defaults(at: Path, best_lr: float) -> Record:
    """A sweep whose defaults have a rate of 0.05."""
    asked: dict[str, Any] = {
        "trainable": "digits_mlp",
        "searcher": "random",
        "scheduler": "none",
        "num_trials": 9,
        "max_epochs": 9,
    }
    plan = make_plan(SweepConfig.from_settings(name="s", results_dir=str(at), **asked))
    return carried_out(plan, peak(best_lr)).record


def test_the_defaults_are_told_beside_the_others_at_their_own_epoch(tmp_path: Path) -> None:
    record = with_defaults(tmp_path / "off", 1.0)
    ((trial, reached),) = status.baselines(record)
    assert (trial.number, trial.origin, trial.params["lr"]) == (0, "your defaults", 0.05)
    at = record.scores_at(epoch := len(trial.epochs))
    rank = sorted(at.values(), reverse=True).index(at[0]) + 1
    assert reached == f"val_acc {short(at[0])} in epoch {epoch}, rank {rank} of the {len(at)} trials there"
    assert f"Your defaults (trial 0): {reached}." in result(record)
    assert "0 (your defaults)" in [row[0] for row in ranking(record).rows]
    best = with_defaults(tmp_path / "on", 0.05)
    assert status.baselines(best)[0][1].endswith(", and no other trial is better")


def test_defaults_with_the_score_of_others_have_a_rank_with_them(tmp_path: Path) -> None:
    record = begun(tmp_path)
    for number, score in enumerate((0.9, 0.5, 0.5, 0.5, 0.1)):
        propose(record, {"lr": 0.1}, origin=DEFAULTS if number == 2 else "")
        record.report(number, 1, score, {}, 1.0)
        record.end(number, "finished")
    ((_, reached),) = status.baselines(record)
    assert reached.endswith(" in epoch 1, rank 2 to 4 of the 5 trials there")
