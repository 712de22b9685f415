"""What a resume refuses, what it says, and how it puts trials and checkpoints in order; without Ray."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from sweeps.common.errors import UserError
from sweeps.config.cli import read_yaml
from sweeps.config.sweep_config import SweepConfig
from sweeps.config.sweep_folder import SWEEP_FILE
from sweeps.kinds.trainable import Preparation
from sweeps.plan import folder, run_start
from sweeps.plan.build import make_plan
from sweeps.plan.plan import Plan
from sweeps.ray_cluster import environment
from sweeps.record import status
from sweeps.record.journal import RecordLost
from sweeps.record.record import Record
from sweeps.record.sweep_info import FORMAT, Outcome, Steered
from sweeps.schedulers import asha
from sweeps.space.domain import converted
from sweeps.space.flat import FlatSpace
from sweeps.training.checkpoints import checkpoint_store
from tests.conftest import propose

SLOPES = "tests.faulty.slopes"
TOY = "from tests.faulty.toy import MODE, Params, build_data, build_model\nMETRIC = 'score'\n"


def config(results: Path, **changes: Any) -> SweepConfig:
    """A sweep of toys judged at epochs 1 and 3, to train 9."""
    base = SweepConfig.from_settings(
        name="s",
        trainable="tests.faulty.toy",
        baseline=False,
        search_space=SLOPES,
        searcher="tpe",
        scheduler="asha",
        results_dir=str(results),
        gpus_per_trial=0,
        num_trials=6,
        max_epochs=9,
        grace_epochs=1,
        time_budget_hours=2.0,
        min_free_gb=0.0,
    )
    return base.changed(**changes)


def look(plan: Plan) -> run_start.ResumeState:
    """As the program does."""
    with folder.opened(plan) as record:
        return run_start.check_resume(plan, record)


class Sweep:
    """A sweep written by hand, as a driver would have left it."""

    def __init__(self, results: Path, **changes: Any) -> None:
        self.plan = make_plan(config(results, **changes))
        self.folder = self.plan.folder
        with folder.opened(self.plan) as self.record:
            run_start.begin_run(self.plan, self.record)

    def trial(self, *scores: float, ended: Any = None) -> int:
        """One that reported these scores, an epoch each."""
        number = len(self.record.trials)
        propose(self.record, {"slope": 0.1 + number / 100})
        for epoch, score in enumerate(scores, start=1):
            self.record.report(number, epoch, score, {"score": score}, 1.0)
        if ended is not None:
            self.record.end(number, ended)
        return number

    def checkpoint(self, number: int, *epochs: int) -> None:
        of_trial, trial = checkpoint_store.folder_of(self.folder, number), self.record.trials[number]
        of = {**trial.fixed, **trial.params}
        for epoch in epochs:
            checkpoint_store.write(of_trial, epoch, lambda into: (into / "weights.pt").touch(), of)

    def on_disk(self) -> dict[int, list[int]]:
        """Trial to the epochs of which there are checkpoints."""
        found = {}
        for of_trial in sorted((self.folder / checkpoint_store.FOLDER).glob("*")):
            epochs = [checkpoint_store.epoch_of(path) for path in checkpoint_store.all_of(of_trial)]
            found[int(of_trial.name.removeprefix("trial_"))] = epochs
        return found

    def to_resume(self, **changes: Any) -> Plan:
        """The plan of `--resume`, with these flags."""
        asked = self.plan.config.changed(resume=str(self.folder), **changes)
        return make_plan(asked)

    def look(self, **changes: Any) -> run_start.ResumeState:
        return look(self.to_resume(**changes))

    def resumed(self, **changes: Any) -> Record:
        """The record after the beginning of another run."""
        plan = self.to_resume(**changes)
        look(plan)
        with folder.opened(plan) as record:
            run_start.begin_run(plan, record)
        return record

    def refuses(self, match: str, **changes: Any) -> None:
        before = (self.folder / "record.journal").read_bytes()
        with pytest.raises(UserError, match=match):
            self.look(**changes)
        assert (self.folder / "record.journal").read_bytes() == before


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return Sweep(tmp_path)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user's package with a trainable and a scheduler of its own."""
    name = f"user_{tmp_path.name}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "model.py").write_text(TOY)
    (tmp_path / name / "pruner.py").write_text("from sweeps.schedulers.none import Scheduler\n")
    monkeypatch.syspath_prepend(tmp_path)
    return name


# What is refused.

OTHER: dict[str, dict[str, Any]] = {
    "--metric other: the sweep has score": {"metric": "other", "mode": "max"},
    "--mode min: the sweep has max": {"mode": "min"},
    "--scheduler none: the sweep has asha": {"scheduler": "none"},
    "--grace-epochs 3: the sweep has 1": {"grace_epochs": 3},
    "--reduction-factor 2: the sweep has 3": {"reduction_factor": 2},
}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("fault", OTHER)
def test_what_the_scores_and_rungs_mean_is_never_changed(fault: str, force: bool, sweep: Sweep) -> None:
    sweep.trial(0.1)
    reason = "scored, pruned and saved with these settings. Start a new sweep to change them"
    sweep.refuses(rf"(?s)^{fault}\n.*{reason}", **OTHER[fault], force=force)


@pytest.mark.parametrize("force", [False, True])
def test_checkpoints_are_of_so_many_workers(force: bool, sweep: Sweep) -> None:
    sweep.refuses(
        r"^--workers-per-trial 2: the sweep has 1",
        workers_per_trial=2,
        force=force,
    )


def test_another_trainable_is_another_sweep(sweep: Sweep, package: str) -> None:
    sweep.refuses(
        rf"--trainable {package}\.model: the sweep has tests\.faulty\.toy",
        trainable=f"{package}.model",
        force=True,
    )


def test_all_that_can_not_be_changed_is_named_at_once(sweep: Sweep) -> None:
    with pytest.raises(UserError) as raised:
        sweep.look(reduction_factor=2, grace_epochs=3)
    assert [line.split(":")[0] for line in str(raised.value).splitlines()[:2]] == [
        "--grace-epochs 3",
        "--reduction-factor 2",
    ]


@pytest.mark.parametrize(("asked", "planned"), [(5, [5]), (6, [6]), (9, [6, 9]), (1, [2])])
def test_the_number_of_trials_may_change_but_those_that_have_begun_stay(
    asked: int, planned: list[int], sweep: Sweep
) -> None:
    sweep.trial(0.1, 0.2)
    sweep.trial(0.1)
    assert f"2 unfinished, {planned[-1] - 2} to come" in sweep.look(num_trials=asked).text
    record = sweep.resumed(num_trials=asked)
    assert record.planned_trials == planned
    assert Record.read(sweep.folder).planned_trials == planned


@pytest.mark.parametrize("hours", [1.5, 2.0, 2.5, None])
def test_hours_may_change_or_be_taken_away(hours: float | None, sweep: Sweep) -> None:
    sweep.trial(0.1)
    assert not sweep.look(time_budget_hours=hours).is_finished


def test_a_sweep_without_a_limit_may_get_one(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, time_budget_hours=None)
    sweep.trial(0.1)
    assert not sweep.look(time_budget_hours=0.5).is_finished


def test_a_budget_that_is_used_up_is_refused_until_it_is_raised(sweep: Sweep) -> None:
    sweep.record.note("elapsed_s", 9000.0)  # two hours and a half of two
    fault = r"--time-budget-hours 2: used up \(the sweep ran 2 h 30 min\); raise it, for example to 5$"
    sweep.refuses(fault)
    sweep.refuses(r"--time-budget-hours 2.5: used up", time_budget_hours=2.5)
    assert not sweep.look(time_budget_hours=2.6).is_finished
    assert not sweep.look(time_budget_hours=None).is_finished


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"seed": 1}, "--seed: 0 -> 1"),
        ({"searcher": "random"}, "--searcher: tpe -> random(\n  sweeps/.*)*"),  # whose code needs less
        ({"precision": "32"}, "--precision: auto -> 32"),
        ({"cpus_per_trial": 2}, "--cpus-per-trial: 1 -> 2"),
        ({"params": {"epoch_s": 0.5}}, r"--params: \{\} -> \{'epoch_s': 0.5\}"),
    ],
)
def test_a_changed_setting_is_refused_and_named_unless_forced(
    changes: dict[str, Any], line: str, sweep: Sweep
) -> None:
    sweep.trial(0.1)
    refused = "this changed since the sweep began, so trials before and after are not comparable"
    sweep.refuses(rf"--resume .*: {refused}:\n  {line}\nUndo the changes, .* --force \(the record", **changes)
    standing = sweep.look(**changes, force=True)
    assert not standing.is_finished
    assert re.search(rf"\nChanged since it began: {line.partition('(')[0]}", standing.text)


def test_what_is_repaired_before_anything_has_trained_needs_no_force(sweep: Sweep) -> None:
    sweep.trial(ended="failed")
    sweep.trial()
    code = {**sweep.record.info.identity["code"], "tests/faulty/toy.py": "before"}
    sweep.record.note("identity", {**sweep.record.info.identity, "code": code})
    text = sweep.look().text
    assert "Changed since it began: tests/faulty/toy.py: its code" in text
    assert "  1 trial that failed is not trained again. To train it, too: " in text
    assert f"run --resume {sweep.folder} --retry failed" in text
    sweep.refuses("--seed: 0 -> 1", seed=1)
    sweep.trial(0.1)
    sweep.refuses("tests/faulty/toy.py: its code")


def test_trials_at_a_time_may_change(sweep: Sweep) -> None:
    sweep.trial(0.1)
    assert not sweep.look(max_concurrent=1).is_finished
    assert sweep.resumed(max_concurrent=1).info.runs[-1].changed == ["--max-concurrent: not set -> 1"]


def test_a_trial_that_the_user_has_stopped_ends_with_a_resume_and_counts(sweep: Sweep) -> None:
    """The driver was killed before the trial had left."""
    leads = sweep.trial(0.9, 0.8)
    trains = sweep.trial(0.1)
    begun = sweep.trial()
    sweep.checkpoint(leads, 2)
    for number in (leads, trains, begun):
        sweep.record.note_steered(Steered(["stop", str(number)]))
    record = sweep.resumed()
    assert [(trial.status, trial.reason) for trial in record.trials] == [
        ("stopped", "stopped by the user")
    ] * 3
    assert record.leaders(3) == [leads, trains]
    assert sweep.on_disk() == {leads: [2]}


def test_one_that_leads_and_has_lost_its_weights_is_trained_up_to_them_again(sweep: Sweep) -> None:
    leads = sweep.trial(0.5, 0.9)
    sweep.checkpoint(leads, 1)
    sweep.record.note_steered(Steered(["stop", str(leads)]))
    record = sweep.resumed()
    assert record.is_to_stop(leads)
    assert "trial 0 continues after epoch 1" in sweep.look().text


def test_a_try_is_noted_once_and_comes_on_top(sweep: Sweep) -> None:
    tries = [{"slope": 0.5}, {"slope": 0.6}]
    for number in range(6):
        sweep.trial(0.1, ended="pruned")
        assert number == len(sweep.record.trials) - 1
    sweep.record.end_run(Outcome.FINISHED)
    assert sweep.look().is_finished
    assert "0 unfinished, 2 to come" in sweep.look(tries=tries).text
    for _ in range(2):
        record = sweep.resumed(tries=tries)
        assert [each.words for each in record.info.steered] == [["try", "slope=0.5"], ["try", "slope=0.6"]]
        assert [dict(point.params) for point in record.points_to_try()] == tries
        assert record.planned_trials == [6, 8]


def test_a_try_that_was_given_up_is_not_noted_again(sweep: Sweep) -> None:
    sweep.trial(0.1)
    sweep.resumed(tries=[{"slope": 0.5}]).note_steered(Steered(["finish"]))
    assert sweep.resumed(tries=[{"slope": 0.5}]).points_to_try() == []


def test_a_paused_sweep_says_so(sweep: Sweep) -> None:
    sweep.trial(0.1)
    sweep.record.note_steered(Steered(["pause"], time=0.0))
    assert re.search(r"\n  it is paused since \d\d:\d\d on .* control .*/s go", sweep.look().text)
    sweep.record.note_steered(Steered(["go"], time=1.0))
    assert "paused" not in sweep.look().text


def test_a_sweep_that_was_killed_in_the_queue_is_not_said_to_wait_once_it_is_resumed(sweep: Sweep) -> None:
    """Ctrl-C would say of trials in training that nothing trains."""
    sweep.record.note("waits_since", 1.0)
    plan = sweep.to_resume()
    with folder.opened(plan) as record:
        assert status.status(record) is Outcome.WAITING
        run_start.begin_run(plan, record)
        assert status.status(record) is Outcome.RUNNING


def test_a_changed_space_is_refused_unless_forced(sweep: Sweep) -> None:
    from ray import tune

    sweep.trial(0.1)
    plan = sweep.to_resume()
    (model,) = plan.models
    assert isinstance(model.space, FlatSpace)
    wider = dataclasses.replace(model.space, domains={"slope": converted(tune.uniform(0.1, 2.0))})
    models = (dataclasses.replace(model, space=wider),)
    with pytest.raises(UserError, match=r"\n  hyperparameter slope: 0\.1 to 1\S* -> 0\.1 to 2"):
        look(dataclasses.replace(plan, models=models))
    forced = sweep.to_resume(force=True)
    assert "hyperparameter slope" in look(dataclasses.replace(forced, models=models)).text


def test_a_trial_that_needs_a_field_that_params_has_lost_is_not_resumed(sweep: Sweep) -> None:
    sweep.trial(0.1, ended="finished")
    propose(sweep.record, {"slope": 0.2, "width": 8})
    lost = r"hyperparameters that Params has no more: width \(of trial 1\)\. Put them back, or .* --refine "
    sweep.refuses(lost, force=True)
    sweep.record.end(1, "failed")
    assert not sweep.look(force=True).is_finished
    sweep.refuses(lost, force=True, retry="failed")


def test_lost_fields_matter_to_trials_that_go_on_alone(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, scheduler="none", num_trials=2, max_epochs=3)
    for number, slope in enumerate((0.1, 0.2)):
        propose(sweep.record, {"slope": slope, "width": 8})
        for epoch in (1, 2, 3):
            sweep.record.report(number, epoch, slope, {"score": slope}, 1.0)
    sweep.checkpoint(1, 3)
    sweep.record.end(1, "finished")
    assert "0 unfinished" in sweep.look(force=True).text, "a kill came before the end of trial 0 was written"
    sweep.record.end(0, "finished")
    sweep.record.end_run(Outcome.FINISHED)
    sweep.refuses(r"width \(of trial ", force=True, max_epochs=9)


SEVERAL = ["tests.faulty.toy", "tests.faulty.steps"]


@pytest.mark.parametrize("now", ["tests.faulty.toy", SEVERAL[::-1]])
def test_of_several_trainables_none_goes_and_none_comes(now: str | list[str], tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, trainable=SEVERAL, search_space=[SLOPES, "tests.faulty.speeds"])
    sweep.trial(0.1)
    assert not sweep.look().is_finished
    of = dict(zip(SEVERAL, [SLOPES, "tests.faulty.speeds"], strict=True))
    spaces = [of[name] for name in (now if isinstance(now, list) else [now])]
    sweep.refuses(
        r"--trainable \S.*: the sweep has tests\.faulty\.toy, tests\.faulty\.steps",
        trainable=now,
        search_space=spaces if len(spaces) > 1 else spaces[0],
        force=True,
    )


def test_changed_code_is_refused_unless_forced(tmp_path: Path, package: str) -> None:
    sweep = Sweep(tmp_path, trainable=f"{package}.model")
    sweep.trial(0.1)
    assert not sweep.look().is_finished
    (tmp_path / package / "model.py").write_text(TOY + "WIDTH = 8\n")
    sweep.refuses(rf"\n  {package}/model\.py: its code\n")
    assert f"{package}/model.py: its code" in sweep.look(force=True).text


def test_another_version_of_a_package_is_refused_unless_forced(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep.trial(0.1)
    before = environment.versions()["torch"]
    other = {**environment.versions(), "torch": "99.0"}
    monkeypatch.setattr(environment, "versions", lambda more=(): other)
    sweep.refuses(rf"\n  torch: {before.replace('+', '.')} -> 99\.0\n")
    assert "99.0" in sweep.look(force=True).text


def test_where_a_sweep_runs_and_lies_may_change(sweep: Sweep, tmp_path: Path) -> None:
    sweep.trial(0.1)
    sweep.folder.rename(tmp_path / "moved")
    plan = make_plan(
        dataclasses.replace(
            sweep.plan.config,
            resume=str(tmp_path / "moved"),
            name="moved",
            ray_dashboard=False,
            address="10.0.0.1:6379",
        )
    )
    assert "Resuming moved" in look(plan).text


def test_a_record_of_another_version_is_refused(sweep: Sweep) -> None:
    sweep.record.note("format", FORMAT - 1)
    sweep.refuses("--resume .*: another version of sweeps has made this sweep", force=True)


def test_a_damaged_record_is_refused_and_left_as_it_is(sweep: Sweep) -> None:
    sweep.trial(0.1)
    journal = sweep.folder / "record.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:4], b"\x00\n", *lines[4:]]))
    sweep.refuses(r"--resume .*record.journal: line 5 is damaged, and intact lines follow", force=True)
    assert b"\x00" in journal.read_bytes(), "left as it is"


def test_a_folder_that_has_lost_its_record_is_refused(sweep: Sweep) -> None:
    (sweep.folder / "record.journal").unlink()
    with pytest.raises(UserError, match=r"--resume .*record.journal is missing"):
        sweep.look()


def test_a_sweep_that_runs_is_refused(sweep: Sweep) -> None:
    with folder.opened(sweep.to_resume()):
        sweep.refuses(r"s: this sweep is already running, in process \d+$", force=True)
    assert not sweep.look().is_finished


# What is said.


def test_a_finished_sweep_says_so_and_how_to_get_more_trials(sweep: Sweep) -> None:
    for _ in range(6):
        sweep.trial(0.1, ended="pruned")
    sweep.record.end_run(Outcome.FINISHED)
    standing = sweep.look()
    assert standing.is_finished
    assert "s is finished: 6 trials ended" in standing.text
    assert "--num-trials 12" in standing.text


@pytest.mark.parametrize("outcome", ["out of time", "interrupted", "lost"])
def test_a_sweep_that_ended_otherwise_is_not_finished(outcome: str, sweep: Sweep) -> None:
    sweep.trial(0.1, ended="pruned")
    sweep.record.end_run(outcome)
    assert not sweep.look().is_finished


def test_a_finished_sweep_goes_on_with_more_trials(sweep: Sweep) -> None:
    for _ in range(6):
        sweep.trial(0.1, ended="pruned")
    sweep.record.end_run(Outcome.FINISHED)
    standing = sweep.look(num_trials=9)
    assert not standing.is_finished
    assert "Resuming s: 6 trials ended, 0 unfinished, 3 to come" in standing.text
    record = sweep.resumed(num_trials=9)
    assert record.info.outcome is Outcome.RUNNING, "so that it can be resumed again"
    assert record.about["identity"]["settings"]["num_trials"] == 9
    assert sweep.look(num_trials=8).text.startswith("\nResuming s: 6 trials ended, 0 unfinished, 2 to come")


def test_it_is_said_of_each_trial_where_it_goes_on(sweep: Sweep) -> None:
    sweep.trial(0.9, 0.9, 0.9, ended="pruned")
    sweep.trial(*[0.9] * 5)
    sweep.checkpoint(1, 4)
    sweep.trial(*[0.9] * 4)
    sweep.checkpoint(2, 4)
    sweep.trial(0.9, 0.9)
    sweep.trial()
    sweep.trial(0.1)
    said = sweep.look(num_trials=8).text.strip().splitlines()
    assert said.pop(1).startswith("  disk: at most 8 checkpoints while it runs, ")
    assert said == [
        "Resuming s: 2 trials ended, 4 unfinished, 2 to come",
        "  trial 1 continues after epoch 4 (1 epoch is trained again)",
        "  trial 2 continues after epoch 4",
        "  trial 3 starts from its first epoch (2 epochs are trained again)",
        "  trial 4 starts from its first epoch",
    ]


def test_a_checkpoint_ahead_of_the_record_is_not_gone_on_from(sweep: Sweep) -> None:
    sweep.trial(0.9, 0.9)
    sweep.checkpoint(0, 2, 3)
    assert "trial 0 continues after epoch 2" in sweep.look().text


# How a run begins.


def test_an_older_copy_of_the_record_never_takes_the_weights_of_another_trial(
    sweep: Sweep, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the record does not know goes: the same numbers will be given to other trials."""
    sweep.trial(0.9, 0.9)
    sweep.checkpoint(0, 1, 2)
    older = (sweep.folder / "record.journal").read_bytes()
    sweep.trial(0.5)
    sweep.checkpoint(1, 1)
    (sweep.folder / "record.journal").write_bytes(older)
    sweep.resumed()
    assert sweep.on_disk() == {0: [2, 1]}
    assert "trial_0001 is not in the record: its checkpoints are removed" in capsys.readouterr().out


def test_a_torn_end_of_the_record_is_said(sweep: Sweep) -> None:
    sweep.trial(0.9)
    with (sweep.folder / "record.journal").open("ab") as file:
        file.write(b'{"op_code": 8, "trial')
    assert "the last 21 bytes of the record are incomplete and are removed" in sweep.look().text


def test_a_finished_sweep_that_has_lost_its_best_folder_makes_it_anew(sweep: Sweep) -> None:
    sweep.trial(*[0.9] * 27, ended="finished")
    sweep.record.note("outcome", "finished")
    assert sweep.look(num_trials=6).is_finished, "there is nothing to make it from"
    sweep.checkpoint(0, 27)
    assert not sweep.look(num_trials=6).is_finished
    (sweep.folder / "best").mkdir()
    assert sweep.look(num_trials=6).is_finished


def statuses(record: Record) -> dict[int, str]:
    return {trial.number: trial.status for trial in record.trials}


def test_an_end_that_was_not_written_any_more_is_written(sweep: Sweep) -> None:
    sweep.trial(*[0.9] * 9, ended="finished")
    sweep.trial(0.95, math.nan)  # diverged
    sweep.trial(*[0.8] * 9)  # at its last epoch, and does not lead
    sweep.trial(0.1)  # pruned at the first rung
    sweep.trial(0.9, 0.5, 0.1)  # at the second one
    sweep.trial(0.9, 0.1)  # between two rungs: still trains
    sweep.trial()
    record = sweep.resumed(num_trials=7)
    expected = ["finished", "diverged", "finished", "pruned", "pruned", "unfinished", "unfinished"]
    assert statuses(record) == dict(enumerate(expected))
    assert record.trials[1].reason == "score was nan in epoch 2"
    assert [trial.reason for trial in record.trials if trial.number != 1] == [""] * 6
    assert statuses(Record.read(sweep.folder)) == statuses(record)


def test_the_metric_of_a_constraint_is_judged_as_in_training(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, constraint=["size_m<=5"])
    for size in (math.nan, 7.0, 3.0):
        number = sweep.trial()
        for epoch in range(1, 10):
            sweep.record.report(number, epoch, 0.5 - number / 10, {"score": 0.5, "size_m": size}, 1.0)
    record = sweep.resumed(num_trials=7)
    assert [(trial.status, trial.reason) for trial in record.trials[:2]] == [
        ("diverged", "size_m was nan in epoch 9"),
        ("infeasible", "size_m 7 misses the constraint size_m<=5 in epoch 1"),
    ]


def test_a_refused_trial_whose_end_was_not_written_has_what_is_known_of_it(tmp_path: Path) -> None:
    sweep = Sweep(
        tmp_path, trainable="tests.faulty.known_size", search_space=None, constraint=["params_m<=5"]
    )
    propose(sweep.record, {"width": 60, "waste": 0.1}, trainable="tests.faulty.known_size")
    record = sweep.resumed(num_trials=7)
    assert record.trials[0].status == "infeasible"
    assert record.trials[0].static_metrics == {"params_m": 6.0, "latency_ms": 60.0}


def test_a_trial_that_stays_at_a_rung_goes_on(sweep: Sweep) -> None:
    sweep.trial(*[0.2] * 9, ended="finished")
    sweep.trial(0.5)
    sweep.trial(0.6)
    sweep.trial(0.1)
    assert list(statuses(sweep.resumed()).values()) == ["finished", "unfinished", "unfinished", "pruned"]


def test_without_pruning_a_trial_ends_at_its_last_epoch_only(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, scheduler="none")
    sweep.trial(0.9, ended="finished")
    sweep.trial(*[0.5] * 9)
    sweep.trial(*[0.1] * 8)
    assert statuses(sweep.resumed()) == {0: "finished", 1: "finished", 2: "unfinished"}


@pytest.mark.parametrize("scores", [[0.6] * 6 + [0.9, 0.6, 0.6], [0.5, 0.5, 0.6]], ids=["finished", "pruned"])
@pytest.mark.parametrize("kept", [[], [1], [2, 3]])
def test_a_trial_that_would_lead_begins_once_more_because_its_weights_are_needed(
    kept: list[int], scores: list[float], sweep: Sweep
) -> None:
    sweep.trial(0.3, 0.3, 0.7, ended="failed")  # ranks at the rungs, and leads nobody
    sweep.trial(*[0.2] * 9, ended="finished")
    number = sweep.trial(*scores)
    sweep.checkpoint(number, *kept)
    assert statuses(sweep.resumed())[number] == "unfinished"
    assert sweep.on_disk().get(number, []) == kept[::-1], "from there it goes on"


def test_of_trials_that_would_lead_as_many_begin_once_more_as_are_kept(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, keep_checkpoints=2, scheduler="none")
    for score in (0.5, 0.4):
        sweep.trial(score, ended="finished")
    sweep.trial(*[0.3] * 9)
    sweep.trial(*[0.45] * 9)
    sweep.trial(*[0.4] * 9)  # the earlier one leads where they tie
    assert list(statuses(sweep.resumed()).values())[2:] == ["finished", "unfinished", "finished"]


def test_one_that_diverged_ends_without_any_weights(sweep: Sweep) -> None:
    sweep.trial(0.9, math.inf)
    record = sweep.resumed()
    assert (record.trials[0].status, record.trials[0].reason) == ("diverged", "score was inf in epoch 2")


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_checkpoints_of_ended_trials_are_removed_but_for_those_of_the_leaders(
    keep: int, tmp_path: Path
) -> None:
    sweep = Sweep(tmp_path, keep_checkpoints=keep, scheduler="none")
    for score in (0.3, 0.5, 0.4, 0.1):
        sweep.checkpoint(sweep.trial(score, ended="finished"), 1)
    sweep.checkpoint(sweep.trial(0.9, ended="failed"), 1)
    sweep.checkpoint(sweep.trial(0.01), 1)  # goes on
    sweep.resumed()
    assert sweep.on_disk() == {**{number: [1] for number in sorted([1, 2, 0][:keep])}, 5: [1]}


def test_checkpoints_ahead_of_the_record_are_removed(sweep: Sweep) -> None:
    """The record lost its last lines: to go on behind them would leave epochs out of it."""
    sweep.trial(0.9, 0.9, 0.9, 0.9)
    sweep.checkpoint(0, 4, 5)
    sweep.trial()
    sweep.checkpoint(1, 2)
    sweep.resumed()
    assert sweep.on_disk() == {0: [4], 1: []}


def test_what_killed_writers_have_left_is_removed(sweep: Sweep) -> None:
    sweep.trial(0.9, 0.9)
    sweep.checkpoint(0, 2)
    left = checkpoint_store.folder_of(sweep.folder, 0) / ".epoch_0003.pc1.17"
    left.mkdir()
    sweep.resumed()
    assert not left.exists()
    assert sweep.on_disk() == {0: [2]}


def test_each_run_is_noted_with_what_changed_and_whether_it_was_forced(sweep: Sweep) -> None:
    sweep.trial(0.9)
    sweep.resumed()
    record = sweep.resumed(seed=1, num_trials=8, force=True)
    first, second, third = record.about["runs"]
    assert (first["changed"], first["forced"]) == (second["changed"], second["forced"]) == ([], False)
    assert third["forced"] is True
    assert sorted(third["changed"]) == ["--num-trials: 6 -> 8", "--seed: 0 -> 1"]
    assert first["started"] <= second["started"] <= third["started"]
    assert Record.read(sweep.folder).about["runs"] == record.about["runs"]


def test_what_was_forced_once_need_not_be_forced_again(sweep: Sweep) -> None:
    sweep.trial(0.9)
    sweep.resumed(seed=1, force=True)
    assert not sweep.look(seed=1).is_finished
    sweep.refuses("--seed: 1 -> 0", seed=0)


def test_the_end_of_a_run_is_noted(sweep: Sweep) -> None:
    sweep.record.end_run(Outcome.INTERRUPTED)
    record = Record.read(sweep.folder)
    assert record.about["outcome"] == "interrupted"
    assert 0 < record.elapsed_s < 60


class Full(Record):
    """A record that can't be written any more."""

    def note(self, key: str, value: Any) -> None:
        raise RecordLost("no space")


def test_a_run_whose_record_was_lost_ends_without_another_error(sweep: Sweep) -> None:
    Full.read(sweep.folder).end_run(Outcome.LOST)


def test_a_plan_of_another_process_finds_the_same_code(sweep: Sweep) -> None:
    """What happens to be imported here (these tests) is no part of it."""
    code = sweep.record.about["identity"]["code"]
    assert "tests/faulty/toy.py" in code
    assert "sweeps/schedulers/asha.py" in code
    assert not [name for name in code if Path(name).stem == __name__.rpartition(".")[2]]
    assert asha.__name__ in sys.modules


LOW = {"slope": "0.1..0.13"}


def test_a_resume_takes_other_ranges_and_says_what_becomes_of_the_trials(sweep: Sweep) -> None:
    for number in range(4):  # of the slopes 0.1 to 0.13
        sweep.trial(0.1 * number, ended="finished")
    sweep.trial(0.5)
    text = sweep.look(ranges={"slope": "0.115..0.2"}).text
    assert "New range of slope: 0.1 to 1.0 -> 0.115 to 0.2\n" in text
    learnt = "Of 5 trials so far, 3 lie in the new ranges, and tpe learns from these alone."
    assert f"{learnt} Trials that have begun go on. 1 trial from them is to come, at most 9 epochs." in text
    record = sweep.resumed(ranges={"slope": "0.115..0.2"})
    (noted,) = record.info.steered
    assert list(noted.words) == ["set", "slope=0.115..0.2"]
    assert record.info.runs[-1].changed == ["slope: 0.1 to 1.0 -> 0.115 to 0.2"]
    assert record.info.settings.ranges == {"slope": "0.115..0.2"}
    assert read_yaml(str(sweep.folder / SWEEP_FILE), "--config")["ranges"] == {"slope": "0.115..0.2"}
    again = sweep.look(ranges={"slope": "0.115..0.2"}).text
    assert "New range" not in again
    assert "Changed" not in again


def test_a_fixed_hyperparameter_and_one_that_had_a_value_change_their_ranges(sweep: Sweep) -> None:
    sweep.trial(0.5, ended="finished")
    text = sweep.look(ranges={"slope": [0.1], "epoch_s": "0.0..0.5"}).text
    assert "New range of slope: 0.1 to 1.0 -> fixed at 0.1\n" in text
    assert "New range of epoch_s: not set -> 0.0 to 0.5\n" in text
    assert (
        "Of 1 trial so far, none lies in the new ranges, and tpe begins anew."
        in sweep.look(ranges={"slope": "0.5..0.6"}).text
    )
    sweep.refuses("no such hyperparameter.*'slope'", ranges={"slop": "0.1..0.2"})
    sweep.refuses("every hyperparameter is fixed", ranges={"slope": 0.1})
    sweep.refuses("--params", ranges=LOW, params={"epoch_s": 0.1})


def test_a_finished_sweep_needs_more_trials_for_other_ranges(sweep: Sweep) -> None:
    for number in range(6):
        sweep.trial(0.1 * number, ended="pruned")
    sweep.record.note("outcome", Outcome.FINISHED)
    sweep.refuses("no trial is to come in new ranges.*--ranges slope=0.1..0.13 --num-trials 12", ranges=LOW)
    assert "6 trials from them are to come" in sweep.look(ranges=LOW, num_trials=12).text


def test_a_chosen_point_that_waits_is_tried_outside_of_new_ranges_too(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, tries=[{"slope": 0.9}], baseline=False)
    text = sweep.look(ranges=LOW).text
    assert "1 point that you have chosen lies outside and is tried all the same." in text
    sweep.refuses("--try slope=0.8: must be", ranges=LOW, tries=[{"slope": 0.8}])
    record = sweep.resumed(ranges=LOW)
    plan = sweep.to_resume(ranges=LOW)
    searcher = plan.searcher.build(plan.config, plan.space, record)
    searcher.slots = 2
    chosen, other = searcher.suggest("")["params"], searcher.suggest("")["params"]
    assert chosen == {"slope": 0.9}
    assert 0.1 <= other["slope"] <= 0.13
    assert not record.points_to_try()


def test_data_is_prepared_for_its_own_values_alone(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = sweep.to_resume(ranges=LOW)
    monkeypatch.setattr(plan.models[0].trainable, "preparation", Preparation(("slope",), dict, list))
    with pytest.raises(UserError, match="--ranges slope: data is prepared for each of its values"):
        look(plan)
