"""Commands to a sweep are checked, carried out, recorded and answered; without Ray."""

from __future__ import annotations

import dataclasses
import io
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from sweeps.common.errors import UserError, refuse
from sweeps.config.cli import read_yaml
from sweeps.config.sweep_config import SweepConfig
from sweeps.config.validation import check
from sweeps.execution.driver import control_apply
from sweeps.execution.driver.queue_turn import QueueTurn
from sweeps.execution.driver.tuner import Leaving, _confirm
from sweeps.execution.driver.user_commands import NO_WEIGHTS, StoppedTrials, UserCommands
from sweeps.execution.output.console import STATUS_EVERY_S
from sweeps.execution.run_context import RunContext
from sweeps.plan import folder, run_start
from sweeps.plan.build import make_plan
from sweeps.python_api.sweep_process import changed_ranges
from sweeps.ray_cluster.places.shared_sweeps import Ahead
from sweeps.record import limits, status
from sweeps.record.control_requests import Inbox, ask
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome
from sweeps.record.trials import Ending
from sweeps.search.search_method import RecordSearcher
from sweeps.storage.disk_guard import Disk
from sweeps.storage.open import Folder
from sweeps.storage.protocol import StorageError
from sweeps.training.checkpoints import checkpoint_store
from sweeps.training.report import Report
from sweeps.trial.messages import Message
from tests.support.contexts import said
from tests.support.nodes import cluster_of


def reported(epoch: int) -> dict[str, Any]:
    """A result of Tune's."""
    return Message(report=Report(epoch, 0.5, {}, 1.0)).to_result()


def config(results: Path, **more: Any) -> SweepConfig:
    asked: dict[str, Any] = {"trainable": "tests.faulty.toy", "search_space": "tests.faulty.slopes"}
    asked |= {"searcher": "random", "scheduler": "none", "num_trials": 6, "max_epochs": 9, "name": "s"}
    return SweepConfig.from_settings(**{**asked, "results_dir": str(results), "min_free_gb": 0.0, **more})


class Steered:
    """A sweep whose driver takes commands."""

    def __init__(self, record: Record, plan: Any) -> None:
        self.record = record
        console = Console(file=io.StringIO(), width=1000)
        cluster = cluster_of((2, 0))
        self.context = RunContext(plan, record, cluster, Disk(plan.folder, 0.0, 1), console)
        self.now = 0.0
        self.commands = UserCommands(self.context, lambda: self.now, lambda seconds: self.sleep(seconds))
        self.sleep: Callable[[float], None] = time.sleep
        """What a pause does; a test may set it."""
        self.commands._inbox.open()
        self.searcher: RecordSearcher = plan.searcher.build(plan.config, plan.space, record)
        self.searcher.slots = 2

    @property
    def folder(self) -> Path:
        return self.context.plan.folder

    def begin(self, *scores: float, ended: Any = None) -> int:
        """The next trial, with these scores."""
        number: int = self.searcher.suggest("")["number"]
        for epoch, score in enumerate(scores, start=1):
            self.record.report(number, epoch, score, {}, 1.0)
        if ended is not None:
            self.record.end(number, ended)
        return number

    def give(self, command: str) -> dict[str, Any]:
        """The answer to a command."""
        assert ask(self.folder, command.split(), wait_s=0) is None
        self.now += 1
        assert self.commands.take_up()
        (file,) = (self.folder / "control").glob("*.answer.json")
        answer: dict[str, Any] = json.loads(file.read_text())
        file.unlink()
        return answer

    def does(self, command: str) -> str:
        answer = self.give(command)
        assert not answer["is_refused"], answer
        assert self.record.info.steered[-1].answer == answer["text"]
        return str(answer["text"])

    def refuses(self, command: str) -> str:
        before = (self.folder / "record.journal").read_bytes()
        answer = self.give(command)
        assert answer["is_refused"], answer
        assert (self.folder / "record.journal").read_bytes() == before
        return str(answer["text"])


@pytest.fixture
def sweep(tmp_path: Path) -> Iterator[Steered]:
    plan = make_plan(config(tmp_path))
    with folder.opened(plan) as record:
        run_start.begin_run(plan, record)
        yield Steered(record, plan)


def test_commands_are_looked_for_once_a_second(sweep: Steered) -> None:
    sweep.begin()
    sweep.does("pause")
    ask(sweep.folder, ["go"], wait_s=0)
    sweep.now += 0.5
    assert not sweep.commands.take_up()
    sweep.now += 0.5
    assert sweep.commands.take_up()


def test_a_trial_is_stopped_once(sweep: Steered) -> None:
    sweep.begin(0.5, ended="finished")
    number = sweep.begin(0.1)
    assert sweep.refuses("stop 0") == (
        "stop 0: it has ended: finished after 1 epoch. Trials that have not ended: 1"
    )
    assert sweep.refuses("stop 2").startswith("stop 2: no such trial; 2 trials have begun")
    assert sweep.does("stop 1").startswith("Trial 1 stops at its next step")
    assert sweep.refuses("stop 1") == "stop 1: trial 1 is being stopped"
    assert sweep.record.is_to_stop(number)


def test_trials_are_retried_before_new_ones_and_once(sweep: Steered) -> None:
    sweep.begin(0.5, 0.5, ended="failed")
    sweep.begin(0.1, ended="finished")
    sweep.begin(ended="failed")
    running = sweep.begin(0.1)
    assert sweep.refuses("retry 1").startswith(
        "retry 1: it is finished after 1 epoch; only trials that failed"
    )
    assert sweep.refuses(f"retry {running}").startswith(f"retry {running}: it has not ended")
    assert sweep.refuses("retry diverged") == "retry: No trial has diverged."
    assert sweep.refuses("retry") == (
        "retry: give numbers of trials, or failed, diverged or infeasible, as in retry failed"
    )
    text = sweep.does("retry failed 0")
    assert text == (
        "Trial 0 (failed) starts from its first epoch, 2 epochs once more. Trial 2 (failed) starts from its "
        "first epoch. At most 18 epochs, about 18 s of training, 2 of them for the second time; no more disk "
        "space than planned. Each begins as soon as a slot is free, before any new trial."
    )
    assert sweep.refuses("retry 0").startswith("retry 0: it has not ended: it trains, or waits to.")
    assert [trial.status for trial in sweep.record.trials] == ["unfinished", "finished"] + ["unfinished"] * 2
    assert sweep.searcher.suggest("")["number"] == 0
    assert sweep.searcher.suggest("") is None, "both slots are in use"
    sweep.record.end(running, "finished")
    assert sweep.searcher.suggest("")["number"] == 2
    sweep.record.end(2, "failed")
    assert sweep.begin() == 4
    assert sweep.record.most_trials == 6


def test_a_retry_is_refused_and_not_noted_where_the_storage_does_not_answer(
    sweep: Steered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next command, also one that is refused for it, would carry it out."""

    def silent(of: Folder, number: int, epoch: int | None = None) -> list[int]:
        raise StorageError("no answer")

    sweep.begin(0.5, ended="diverged")
    for name in ("epochs", "remove"):
        monkeypatch.setattr(Folder, name, silent)
    assert sweep.refuses("retry 0") == "no answer"


def test_a_retry_that_a_kill_has_cut_short_is_completed_by_the_resume(sweep: Steered) -> None:
    sweep.begin(0.5, ended="failed")
    sweep.does("retry 0")
    sweep.record.end(0, "failed", "again")
    steered = sweep.record.info.steered[-1]
    sweep.record.note_steered(dataclasses.replace(steered, retried={"0": (1, 0)}, request="another"))
    resumed = make_plan(config(sweep.folder.parent).changed(resume=str(sweep.folder), name="s"))
    run_start.begin_run(resumed, sweep.record)
    assert [trial.number for trial in sweep.record.live] == [0]
    assert len(sweep.record.trials[0].attempts) == 2


def test_the_limit_that_ended_a_search_lets_a_retried_trial_train(tmp_path: Path) -> None:
    plan = make_plan(config(tmp_path, target=0.9, metric="score", mode="max"))
    with folder.opened(plan) as record:
        run_start.begin_run(plan, record)
        sweep = Steered(record, plan)
        sweep.begin(0.5, ended="failed")
        sweep.begin(0.95)
        control_apply.end_search_if_enough(sweep.context)
        assert record.is_to_stop(1)
        record.end(1, "stopped", record.why_stopped(1))
        sweep.does("retry failed")
        control_apply.end_search_if_enough(sweep.context)
        assert not record.is_to_stop(0)
        assert sweep.searcher.suggest("")["number"] == 0


def test_a_trial_is_stopped_by_its_name(sweep: Steered) -> None:
    number = sweep.begin(0.1)
    assert sweep.does("stop trial_0000").startswith("Trial 0 stops at its next step")
    assert sweep.record.is_to_stop(number)
    assert sweep.refuses("stop trial_0") == "stop 0: trial 0 is being stopped"


def test_a_request_that_is_none_is_ignored_with_the_reason(sweep: Steered) -> None:
    sweep.begin(0.1)
    file = sweep.folder / "control" / "requests" / "1-wrong.json"
    file.write_text("{}")
    file.chmod(0o600)
    sweep.does("pause")
    assert isinstance(output := sweep.context.console.file, io.StringIO)
    assert "A command was ignored: " in output.getvalue()
    assert "1-wrong.json: not a request: it must hold" in output.getvalue()


def test_a_chosen_trial_takes_the_next_place_or_comes_on_top(sweep: Steered) -> None:
    for _ in range(4):
        sweep.begin(0.5, ended="finished")
    assert sweep.does("try slope=0.3").startswith("Trial 4 will have these hyperparameters; it begins when")
    assert sweep.refuses("try slope=0.3") == "try: these hyperparameters are waiting to be tried already"
    assert "on top" not in sweep.does("try slope=0.4")
    assert sweep.does("try slope=0.5").endswith("It comes on top: 7 trials in all.")
    assert sweep.record.planned_trials == [6, 7]
    slopes = [sweep.record.trials[sweep.begin(0.5, ended="finished")].params["slope"] for _ in range(3)]
    assert slopes == [0.3, 0.4, 0.5]
    assert sweep.record.trials[4].origin == "chosen by the user"
    assert sweep.refuses("try slope=0.3").startswith("try: trial 4 has these hyperparameters; it is finished")
    assert sweep.searcher.suggest("") == "FINISHED"


def test_a_target_that_is_reached_ends_the_search(sweep: Steered) -> None:
    sweep.begin(0.5, 0.7, ended="finished")
    number = sweep.begin(0.6)
    sweep.does("set target=0.9")
    control_apply.end_search_if_enough(sweep.context)
    assert not sweep.record.is_to_stop(number), "0.7 is not 0.9"
    sweep.record.report(number, 2, 0.9, {}, 1.0)
    control_apply.end_search_if_enough(sweep.context)
    assert sweep.record.is_to_stop(number)
    assert sweep.record.why_stopped(number) == "stopped by --target 0.9"
    assert sweep.searcher.suggest("") != "FINISHED", "the trial that is stopped has not ended"
    sweep.record.end(number, "stopped")
    assert sweep.searcher.suggest("") == "FINISHED"
    assert status.enough(sweep.record) == "--target 0.9: score 0.9 (trial 1, epoch 2) reaches it"


def test_who_asks_for_more_trials_gets_them_after_a_limit(sweep: Steered) -> None:
    sweep.does("set patience=2")
    for score in (0.5, 0.4, 0.3):
        sweep.begin(score, ended="finished")
        control_apply.end_search_if_enough(sweep.context)
    assert status.enough(sweep.record) == "--patience 2: no better score in the last 2 trials that ended"
    sweep.does("set num-trials=6")
    assert not status.enough(sweep.record)
    sweep.begin(0.2, ended="finished")
    control_apply.end_search_if_enough(sweep.context)
    assert sweep.record.most_trials == 6, "one trial, since it was asked to go on"
    sweep.begin(0.1, ended="finished")
    control_apply.end_search_if_enough(sweep.context)
    assert sweep.record.most_trials == 5


def test_a_limit_leaves_the_number_of_trials_that_was_asked_for(sweep: Steered, tmp_path: Path) -> None:
    sweep.begin(0.5, ended="finished")
    sweep.does("set target=0.5")
    control_apply.end_search_if_enough(sweep.context)
    written = read_yaml(str(sweep.folder / "sweep.yaml"), "--config")
    assert (written["num_trials"], sweep.record.most_trials) == (6, 1)
    again = make_plan(config(tmp_path, **{**written, "confirm": 1}, resume=str(sweep.folder)))
    run_start.begin_run(again, sweep.record)
    assert sweep.record.most_trials == 1, "a confirmation asks for no more trials"
    more = make_plan(config(tmp_path, **{**written, "num_trials": 9}, resume=str(sweep.folder)))
    run_start.begin_run(more, sweep.record)
    assert sweep.record.most_trials == 9


def test_trials_that_fail_are_no_trials_without_a_better_score(sweep: Steered) -> None:
    limit = sweep.context.config.changed(patience=2)
    sweep.begin(0.5, ended="finished")
    for _ in range(3):
        sweep.begin(ended="failed")
    assert limits.reached(limit, sweep.record, gpus=0) is None


def test_the_first_score_of_all_does_not_mean_that_a_target_is_right(tmp_path: Path) -> None:
    plan = make_plan(config(tmp_path, target=0.9, metric="acc", mode="min"))
    with folder.opened(plan) as record:
        run_start.begin_run(plan, record)
        sweep = Steered(record, plan)
        sweep.begin(0.2)
        control_apply.end_search_if_enough(sweep.context)
        assert status.enough(record).endswith("is the target right? a small acc is better")


def test_gpu_hours_are_of_all_trials_and_their_gpus(sweep: Steered) -> None:
    limit = sweep.context.config.changed(max_gpu_hours=0.001)
    sweep.begin(*[0.1] * 3, ended="finished")
    assert limits.reached(limit, sweep.record, gpus=1) is None, "3 s of 3.6 s"
    found = limits.reached(limit, sweep.record, gpus=2)
    assert found == ("--max-gpu-hours 0.001", "the trials have trained 0.0017 GPU hours")
    found = limits.reached(limit, sweep.record, gpus=150_000)
    assert found is not None
    assert found.why == "the trials have trained 125 GPU hours"


def test_a_gpu_that_is_found_to_have_room_for_several_trials_counts_once(sweep: Steered) -> None:
    limit = sweep.context.config.changed(max_gpu_hours=0.001, trials_per_gpu="auto")
    for gpu in ("G #0", "G #0", "G #1"):
        number = sweep.begin()
        assert limits.reached(limit, sweep.record, gpus=1) is None, "3 s of 3.6 s"
        sweep.record.place(number, {"pc": "a", "pid": number, "gpu": gpu})
        sweep.record.report(number, 1, 0.1, {}, 3.0)
        sweep.record.end(number, "finished")
    found = limits.reached(limit, sweep.record, gpus=1)
    assert found == ("--max-gpu-hours 0.001", "the trials have trained 0.0017 GPU hours")


def test_limits_that_can_mean_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--max-gpu-hours 1: a trial has no GPU here"):
        make_plan(config(tmp_path, max_gpu_hours=1.0))
    several = {"metric": ["acc:max", "ms:min"], "target": 1.0}
    with pytest.raises(UserError, match=r"--target: it is of one score, and there are several objectives"):
        refuse(check(config(tmp_path, **several)))


def test_limits_are_those_of_a_resume_too(sweep: Steered, tmp_path: Path) -> None:
    sweep.begin(0.5)
    assert sweep.does("set num-trials=9 max-concurrent=1 time-budget-hours=2") == (
        "9 trials in all: 8 are still to begin. At most 1 trial at a time. Trials that train now go on. "
        "The sweep stops in 2 h 0 min, if it has not ended by then."
    )
    assert (sweep.context.slots(0), sweep.context.config.time_budget_hours) == (1, 2)
    written = read_yaml(str(sweep.folder / "sweep.yaml"), "--config")
    assert (written["num_trials"], written["max_concurrent"], written["time_budget_hours"]) == (9, 1, 2.0)
    again = make_plan(config(tmp_path, **written, resume=str(sweep.folder)))
    assert "8 to come" in run_start.check_resume(again, sweep.record).text
    assert "As many trials at a time as the resources allow" in sweep.does("set max-concurrent=none")
    assert sweep.context.slots(0) == 2
    assert sweep.does("set max-concurrent=5") == (
        "At most 5 trials at a time; 2 fit on the PCs that are there. Trials that train now go on."
    )


def test_fewer_trials_than_have_begun_end_the_search(sweep: Steered) -> None:
    sweep.begin(0.5)
    sweep.begin(0.5, ended="finished")
    assert sweep.does("set num-trials=1") == (
        "2 trials have begun already: no new one begins, and those end as usual."
    )
    assert sweep.record.planned_trials == [2]
    assert sweep.searcher.suggest("") is None
    sweep.record.end(0, "finished")
    assert sweep.searcher.suggest("") == "FINISHED"


def test_trials_to_come_are_drawn_from_a_range_that_is_set(sweep: Steered) -> None:
    """Another process, which has the record alone, proposes the same."""
    sweep.searcher.slots = 6
    for _ in range(2):
        sweep.begin(0.1, ended="finished")
    sweep.does("try slope=0.9")
    assert sweep.does("set slope=0.2..0.25 num-trials=7") == (
        "slope: 0.1 to 1.0 -> 0.2 to 0.25. 7 trials in all: 5 are still to begin. Of 2 trials so far, none "
        "lies in the new ranges. 1 point that you have chosen lies outside and is tried all the same. "
        "4 trials from them are to come, at most 36 epochs."
    )
    sweep.commands.searcher = sweep.searcher
    sweep.does("set slope=0.2..0.3")
    again = make_plan(sweep.context.config.changed(resume=str(sweep.folder)))
    rebuilt = again.searcher.build(again.config, again.space, sweep.record)
    first = [point.params for point in rebuilt._propose(3)][:5]
    proposed = [sweep.record.trials[sweep.begin()].params["slope"] for _ in range(3)]
    assert proposed[0] == 0.9
    assert proposed[1] == next(each["slope"] for each in first)
    assert all(0.2 <= slope <= 0.3 for slope in proposed[1:])  # type: ignore[operator]
    assert read_yaml(str(sweep.folder / "sweep.yaml"), "--config")["ranges"] == {"slope": "0.2..0.3"}
    assert run_start.check_resume(again, sweep.record).text.count("New range") == 0


def test_a_range_that_does_not_fit_changes_nothing(sweep: Steered) -> None:
    plan = sweep.context.plan
    assert "slope, patience" not in sweep.refuses("set slop=0.2..0.3 patience=2")
    unknown = "set slop: no setting that can change while a sweep runs, and no hyperparameter."
    assert sweep.refuses("set slop=0.2..0.3").startswith(f"{unknown} Did you mean 'slope'?")
    assert "Did you mean 'num-trials'?" in sweep.refuses("set num-trial=3")
    assert sweep.refuses("set slope=0.3..0.2").startswith("set slope=0.3..0.2: bounds reversed")
    assert sweep.refuses("set slope=0.2..0.3 num-trials=7 time-budget-hours=1e-9")
    assert sweep.context.plan is plan


def test_a_range_with_which_the_users_code_fails_changes_nothing(
    sweep: Steered, monkeypatch: pytest.MonkeyPatch
) -> None:
    def describe_data(params: Any) -> str:
        raise KeyError("cifar1000")

    plan = sweep.context.plan
    trainable: Any = plan.models[0].trainable
    monkeypatch.setitem(trainable._defined, "describe_data", describe_data)
    assert sweep.refuses("set slope=0.2..0.3") == "set slope: KeyError: 'cifar1000'"
    assert sweep.context.plan is plan


def test_a_range_that_cant_be_written_changes_nothing(sweep: Steered) -> None:
    plan, settings = sweep.context.plan, sweep.folder / "sweep.yaml"
    settings.unlink()
    (settings / "no file").mkdir(parents=True)
    assert "sweep.yaml" in sweep.refuses("set slope=0.2..0.3 num-trials=7")
    assert sweep.context.plan is plan


def test_a_cell_that_is_run_again_keeps_ranges_that_were_set_meanwhile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = {"slope": "0.1..0.9"}
    plan = make_plan(config(tmp_path, ranges=space))
    with folder.opened(plan) as record:
        run_start.begin_run(plan, record)
        sweep = Steered(record, plan)
        assert changed_ranges(sweep.folder, space) == {}
        assert not capsys.readouterr().out
        sweep.does("set slope=0.2..0.3")
        assert changed_ranges(sweep.folder, space) == {}
        told = "slope: its range was changed to 0.2..0.3 after the sweep began, and stays. To return to 0.1"
        assert capsys.readouterr().out.startswith(told)
        assert changed_ranges(sweep.folder, {"slope": "0.4..0.9"}) == {"slope": "0.4..0.9"}


def test_a_wider_range_has_points_again(tmp_path: Path) -> None:
    plan = make_plan(config(tmp_path, ranges={"slope": "0.1,0.2"}, num_trials=5, baseline=False))
    with folder.opened(plan) as record:
        run_start.begin_run(plan, record)
        sweep = Steered(record, plan)
        sweep.begin(), sweep.begin()
        sweep.searcher.slots = 9
        assert sweep.searcher.suggest("") is None
        text = sweep.does("set slope=0.1,0.2,0.3 num-trials=3")
        assert "1 of 3 points is left to try. 1 trial from them is to come, at most 9 epochs." in text
        assert record.most_trials == 3


def test_a_limit_that_is_used_up_is_refused(sweep: Steered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep.record, "_elapsed_before_s", 7200.0)
    assert sweep.refuses("set time-budget-hours=1.5") == (
        "set time-budget-hours 1.5: the sweep has run 2 h 0 min; give more than 2 hours"
    )


def test_more_trials_than_points_are_refused(tmp_path: Path) -> None:
    more = {"search_space": "tests.faulty.slopes_grid", "searcher": "grid", "num_trials": 2}
    plan = make_plan(config(tmp_path, **more))
    with folder.opened(plan) as record:
        run_start.begin_run(plan, record)
        sweep, points = Steered(record, plan), int(plan.space.size())
        fault = f"the search space has {points} points; the nearest is {points}"
        assert sweep.refuses("set num-trials=99") == f"set num-trials 99: {fault}"
        sweep.does(f"set num-trials={points}")
        trials = [sweep.record.trials[sweep.begin(0.1, ended="pruned")] for _ in range(points)]
        assert len({trial.point.key for trial in trials}) == points
        assert sweep.searcher.suggest("") == "FINISHED"


def test_finish_gives_up_what_has_not_begun(sweep: Steered) -> None:
    assert sweep.refuses("finish") == "finish: no trial has begun; Ctrl-C ends the sweep"
    sweep.begin(0.5)
    sweep.does("try slope=0.3")
    assert sweep.does("finish") == (
        "No new trial begins; the unfinished ones (1) end as usual; the chosen ones that had not begun (1) "
        "are given up; then the sweep ends with its report."
    )
    assert (sweep.record.planned_trials, sweep.record.points_to_try()) == ([1], [])
    sweep.does("try slope=0.4")
    assert [point.params for point in sweep.record.points_to_try()] == [{"slope": 0.4}]
    assert sweep.record.planned_trials == [1, 2]


def test_more_epochs_let_the_trials_go_on_in_new_processes(sweep: Steered) -> None:
    done, trains = sweep.begin(*[0.5] * 9), sweep.begin(0.1)
    for number in (done, trains):
        sweep.record.note_trial(number, schedule={"epochs": 0})
    sweep.record.end(done, "finished")
    checkpoint_store.write(checkpoint_store.folder_of(sweep.folder, done), 9, lambda into: None)
    assert sweep.refuses("set max-epochs=3").startswith("set max-epochs=3: the sweep has 9, and its trials")
    assert sweep.refuses("set lr-schedule=anew") == (
        "lr-schedule=anew: it goes with more epochs than the sweep has, as in set max-epochs=27"
    )
    assert sweep.does("set max-epochs=27") == (
        "Epochs 9 -> 27: nothing is pruned; 1 trial trained 9 epochs: trial 0 goes on. About 152 epochs to "
        "train in all; 2 min 32 s of training, at 1 s an epoch. Trials that train now save what they have, "
        "and go on in new processes."
    )
    processes: Any = SimpleNamespace(training=list, ask_to_leave=lambda processes: None)
    assert Leaving(sweep.context, processes).stop_all()
    assert sweep.commands.wait_for_go()
    assert [trial.status for trial in sweep.record.trials] == ["unfinished", "unfinished"]
    assert sweep.record.info.max_epochs == sweep.context.config.max_epochs == 27
    assert read_yaml(str(sweep.folder / "sweep.yaml"), "--config")["max_epochs"] == 27
    assert sweep.does("set max-epochs=27") == "The sweep has 27 epochs."


def trained_to_the_end(sweep: Steered) -> None:
    """One of its trials, whose weights are there."""
    done = sweep.begin(*[0.5] * 9)
    sweep.record.note_trial(done, schedule={"epochs": 0})
    sweep.record.end(done, "finished")
    checkpoint_store.write(checkpoint_store.folder_of(sweep.folder, done), 9, lambda into: None)


def test_more_epochs_and_more_trials_are_set_together(sweep: Steered) -> None:
    trained_to_the_end(sweep)
    told = sweep.does("set max-epochs=27 num-trials=12")
    assert told.startswith("12 trials in all: 11 are still to begin. Epochs 9 -> 27: ")
    assert "About 315 epochs to train in all" in told, "11 of 27 epochs, and 18 more"
    for record in (sweep.record, Record.read(sweep.folder)):
        assert (record.info.max_epochs, record.most_trials) == (27, 12)
    written = read_yaml(str(sweep.folder / "sweep.yaml"), "--config")
    assert (written["max_epochs"], written["num_trials"]) == (27, 12)


def test_more_epochs_that_can_not_be_written_are_taken_back(sweep: Steered) -> None:
    trained_to_the_end(sweep)
    file = sweep.folder / "sweep.yaml"
    file.unlink()
    file.mkdir()
    assert sweep.give("set max-epochs=27 num-trials=12")["is_refused"]
    for record in (sweep.record, Record.read(sweep.folder)):
        assert (record.info.max_epochs, record.info.raised, record.most_trials) == (9, (), 6)
    assert (sweep.context.config.max_epochs, sweep.context.config.num_trials) == (9, 6)
    file.rmdir()
    assert "Epochs 9 -> 27: " in sweep.does("set max-epochs=27")
    assert len(Record.read(sweep.folder).info.raised) == 1


def test_a_pause_holds_trials_until_go(sweep: Steered) -> None:
    number = sweep.begin(0.5)
    assert sweep.refuses("go") == "go: the sweep is not paused"
    assert sweep.does("pause").startswith("The trials leave at their next step")
    assert sweep.refuses("pause").startswith("pause: the sweep has been paused since ")
    processes: Any = SimpleNamespace(training=list, ask_to_leave=lambda processes: None)
    leaving = Leaving(sweep.context, processes)
    assert leaving.stop_all()
    sweep.searcher.requeue(number)
    assert sweep.searcher.suggest("") is None, "it is held"
    sweep.does("go")
    assert not leaving.stop_all()
    assert sweep.searcher.suggest("")["number"] == number


def test_more_epochs_in_a_pause_end_the_processes_of_fewer_though_go_comes_before_they_have(
    sweep: Steered,
) -> None:
    sweep.begin(0.5)
    at_work = ["a process"]
    processes: Any = SimpleNamespace(training=lambda: at_work, ask_to_leave=lambda processes: None)
    leaving = Leaving(sweep.context, processes)
    for command in ("pause", "set max-epochs=27", "go"):
        sweep.does(command)
        assert not leaving.stop_all()
    at_work.clear()
    assert leaving.stop_all()
    assert sweep.commands.wait_for_go()
    assert sweep.context.end.is_running
    assert not Leaving(sweep.context, processes).stop_all(), "its processes train 27 epochs"


@pytest.mark.parametrize("error", [StorageError("no answer"), OSError("of a share")])
def test_a_pause_takes_commands_and_ends_also_where_the_storage_does_not_answer(
    error: OSError, sweep: Steered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server may be down for that time, and may have just been started again."""

    def silent(of: Folder) -> None:
        raise error

    monkeypatch.setattr(Folder, "tidy", silent)
    sweep.does("pause")
    ask(sweep.folder, ["go"], wait_s=0)
    sweep.sleep = lambda seconds: setattr(sweep, "now", sweep.now + 1)
    assert sweep.commands.wait_for_go()
    assert sweep.context.end.is_running


def test_the_time_of_a_pause_does_not_count(sweep: Steered) -> None:
    sweep.begin(0.5)
    sweep.does("pause")
    ask(sweep.folder, ["go"], wait_s=0)
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        before = sweep.record.elapsed_s
        waited.append(seconds)
        sweep.now += 1
        assert sweep.record.elapsed_s == before

    sweep.sleep = sleep
    assert sweep.commands.wait_for_go()
    assert waited
    assert sweep.context.end.is_running


def test_a_log_has_the_status_once_a_minute_in_a_pause(sweep: Steered) -> None:
    sweep.begin(0.5)
    sweep.does("pause")

    def sleep(seconds: float) -> None:
        sweep.now += 25
        if sweep.now > 3 * STATUS_EVERY_S:
            ask(sweep.folder, ["go"], wait_s=0)

    sweep.sleep = sleep
    assert sweep.commands.wait_for_go()
    told = [line for line in said(sweep.context) if line.startswith("Paused since ")]
    first, *later = told
    assert "the processes of the trials end" in first
    assert len(later) == 2
    assert all("; 1 trial unfinished, 5 to come. To continue: " in line for line in later)


FIRST = Ahead({"first": 700.0}, [])


def in_queue(sweep: Steered, *ahead: Ahead | None) -> list[Ahead | None]:
    """A turn that comes behind these; what is still to come of them."""
    left = [*ahead]
    sweep.commands.turn = QueueTurn(
        sweep.context, lambda: left.pop(0) if left else None, lambda: sweep.now, lambda s: sweep.sleep(s)
    )
    return left


def test_a_sweep_of_the_queue_waits_for_those_before_it(sweep: Steered) -> None:
    """Its wait counts for no limit, is seen by others, and is told when other sweeps are before it."""
    seen = []

    def sleep(seconds: float) -> None:
        sweep.now += seconds
        time.sleep(0.05)
        seen.append((status.status(Record.read(sweep.folder)), sweep.record.elapsed_s))

    sweep.sleep = sleep
    in_queue(sweep, *[Ahead({"first": 700.0}, ["second"])] * 2, FIRST, Ahead({"first": 650.0}, []))
    assert sweep.commands.wait_for_go()
    assert [how for how, _ in seen] == ["waiting"] * 4
    assert seen[0][1] == seen[-1][1]
    assert said(sweep.context) == [
        "Waits in the queue: first runs, about 12 min left; second waits before it.",
        "Waits in the queue: first runs, about 12 min left.",
        "No sweep is before this one any more: it begins.",
    ]
    assert status.status(Record.read(sweep.folder)) == "running"
    before = len(seen)
    assert sweep.commands.wait_for_go()
    assert len(seen) == before, "its turn stays"


def test_a_log_tells_once_a_minute_for_what_a_sweep_waits(sweep: Steered) -> None:
    sweep.sleep = lambda seconds: setattr(sweep, "now", sweep.now + seconds)
    in_queue(sweep, *[FIRST] * 121)
    assert sweep.commands.wait_for_go()
    assert len(said(sweep.context)) == 1 + 2 + 1


def test_a_sweep_of_the_queue_takes_commands_and_ctrl_c(sweep: Steered) -> None:
    left = in_queue(sweep, *[FIRST] * 5)
    given = []

    def sleep(seconds: float) -> None:
        sweep.now += seconds
        if not given:
            given.append(ask(sweep.folder, ["set", "num-trials=3"], wait_s=0))
        elif sweep.record.most_trials == 3:
            sweep.context.end.stop(Outcome.INTERRUPTED)

    sweep.sleep = sleep
    assert not sweep.commands.wait_for_go()
    assert left == [FIRST] * 2
    assert sweep.record.info.waits_since is None
    assert said(sweep.context)[-1].startswith("set num-trials=3: 3 trials in all")


def test_a_pause_gives_its_turn_to_others(sweep: Steered) -> None:
    left = in_queue(sweep)
    assert sweep.commands.wait_for_go()
    sweep.does("pause")
    left.append(FIRST)
    ask(sweep.folder, ["go"], wait_s=0)
    sweep.sleep = lambda seconds: setattr(sweep, "now", sweep.now + 1)
    assert sweep.commands.wait_for_go()
    assert not left, "it waits again"


def test_what_follows_finish_says_what_becomes_of_it(sweep: Steered) -> None:
    sweep.begin(0.5, ended="finished")
    sweep.begin(0.5)
    sweep.does("finish")
    assert sweep.refuses("finish") == "finish: already finishing; 1 trial unfinished"
    assert sweep.does("try slope=0.3").endswith(
        "It comes on top: 3 trials in all. finish holds: no other trial begins after it."
    )
    assert sweep.refuses("finish").startswith("finish: already finishing")
    assert sweep.does("set num-trials=5") == "5 trials in all: 3 are still to begin. This withdraws finish."
    assert sweep.does("set num-trials=6") == "6 trials in all: 4 are still to begin."
    assert sweep.does("finish").startswith("No new trial begins")


def test_a_refusal_names_its_command_once(sweep: Steered) -> None:
    sweep.begin(0.5)
    sweep.refuses("stop 99")
    sweep.refuses("try slope=7")
    first, second = said(sweep.context)
    assert first.startswith("Refused: stop 99: no such trial")
    assert second.startswith("Refused try slope=7: slope=7: must be ")


def test_a_sweep_that_stops_takes_no_command(sweep: Steered) -> None:
    sweep.begin(0.5)
    sweep.context.end.stop(Outcome.INTERRUPTED)
    assert sweep.refuses("pause").startswith("the sweep is stopping (interrupted). Resume it: ")


def test_in_the_confirmation_no_trial_is_added(sweep: Steered) -> None:
    for _ in range(6):
        sweep.begin(0.5, ended="finished")
    sweep.record.note("confirm", {"top": 1, "seeds": 1})
    best = sweep.record.trials[0]
    sweep.record.begin(best.point, best.optuna, 7, confirms=0)
    for command in ("try slope=0.3", "set num-trials=9", "finish"):
        assert "its best trials are being confirmed" in sweep.refuses(command)
    assert sweep.refuses("stop 6").startswith("stop 6: it reruns trial 0 with a new seed")
    sweep.does("set max-concurrent=1")


def test_a_command_is_not_carried_out_twice(sweep: Steered) -> None:
    """The driver was killed after it had written the command, and before it answered."""
    sweep.begin(0.5)
    ask(sweep.folder, ["try", "slope=0.3"], wait_s=0)
    (request,) = sweep.commands._inbox.take()[0]
    first = sweep.commands._answer(request)
    again = UserCommands(sweep.context)
    again._inbox.open()
    assert again.take_up()
    assert len(sweep.record.info.steered) == 1
    (file,) = (sweep.folder / "control").glob("*.answer.json")
    assert json.loads(file.read_text())["text"] == first.text
    assert Inbox(sweep.folder).take() == ([], [])


@pytest.mark.parametrize(
    ("words", "then"),
    [("pause", "To add some: "), ("set max-epochs=27", "Afterwards, a resume does that: ")],
)
def test_what_comes_at_the_end_is_refused(words: str, then: str, sweep: Steered) -> None:
    ask(sweep.folder, words.split(), wait_s=0)
    sweep.commands.close()
    (file,) = (sweep.folder / "control").glob("*.answer.json")
    answer = json.loads(file.read_text())
    assert answer["is_refused"]
    assert answer["text"].startswith(f"the trials of this sweep have ended. {then}")
    assert answer["text"].endswith("--max-epochs 27") == (words != "pause")
    assert not (sweep.folder / "control" / "requests").exists()


class Training:
    """Processes, each with a trial that has reported so many epochs in it."""

    def __init__(self, **epochs: int) -> None:
        self.epochs = {int(name.removeprefix("trial_")): epoch for name, epoch in epochs.items()}
        self.asked: list[int] = []
        self.not_left: Counter[int] = Counter()

    def training(self) -> list[Any]:
        return [
            SimpleNamespace(
                leaves_in_s=None,
                trial=SimpleNamespace(config={"number": n}, last_result=reported(epoch)),
            )
            for n, epoch in self.epochs.items()
        ]

    def ask_to_leave(self, processes: Any) -> None:
        self.asked += [process.trial.config["number"] for process in processes]


def test_a_stopped_trial_is_asked_to_leave_and_one_that_waits_ends(sweep: Steered) -> None:
    trains, requeued = sweep.begin(0.1, 0.2), sweep.begin(0.3)
    sweep.searcher.requeue(requeued)
    checkpoints = checkpoint_store.folder_of(sweep.folder, requeued)
    of = {**sweep.record.trials[requeued].fixed, **sweep.record.trials[requeued].params}
    checkpoint_store.write(checkpoints, 1, lambda into: (into / "weights.pt").touch(), of)
    processes: Any = Training(trial_0=1)
    stopped_trials = StoppedTrials(sweep.commands, sweep.context, sweep.searcher, processes)
    sweep.does("stop 0")
    sweep.does("stop 1")
    stopped_trials.on_step_end(0, [])
    assert processes.asked == [], "epochs that the record has are trained again"
    assert sweep.record.trials[requeued].status == "stopped"
    assert not sweep.searcher.withdraw(requeued)
    assert checkpoints.is_dir(), "it leads"
    processes.epochs[trains] = 2
    stopped_trials.on_step_end(1, [])
    assert processes.asked == [trains]


def test_a_stopped_trial_ends_once_the_storage_answers(
    sweep: Steered, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(of: Folder, number: int) -> list[int]:
        raise StorageError("no answer")

    number = sweep.begin(0.1)
    sweep.searcher.requeue(number)
    checkpoint_store.write(checkpoint_store.folder_of(sweep.folder, number), 1, lambda into: None)
    processes: Any = Training()
    stopped_trials = StoppedTrials(sweep.commands, sweep.context, sweep.searcher, processes)
    sweep.does(f"stop {number}")
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Folder, "epochs", silent)
        stopped_trials.on_step_end(0, [])
        assert sweep.record.trials[number].status == "unfinished"
    stopped_trials.on_step_end(1, [])
    assert sweep.record.trials[number].status == "stopped"


def test_reruns_are_given_up_also_where_the_storage_does_not_answer(
    sweep: Steered, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(of: Folder, number: int, epoch: int | None = None) -> None:
        raise StorageError("no answer")

    trial = sweep.record.trials[sweep.begin(0.1, ended="finished")]
    rerun = sweep.record.begin(trial.point, trial.optuna, 7, confirms=trial.number)
    monkeypatch.setattr(Folder, "remove", silent)
    _confirm(sweep.context, sweep.commands)
    assert rerun.status == "pruned"
    assert sweep.context.end.is_running


def test_a_stopped_leader_that_hangs_again_and_again_ends_without_its_weights(sweep: Steered) -> None:
    """It has failed: another trial, which has its weights, is the best one."""
    number = sweep.begin(0.1)
    sweep.searcher.requeue(number)
    processes: Any = Training()
    stopped_trials = StoppedTrials(sweep.commands, sweep.context, sweep.searcher, processes)
    sweep.does(f"stop {number}")
    processes.not_left[number] = 1
    stopped_trials.on_step_end(0, [])
    assert sweep.record.trials[number].status == "unfinished", "it is trained again"
    processes.not_left[number] = 2
    stopped_trials.on_step_end(1, [])
    ended = sweep.record.trials[number]
    assert (ended.status, ended.reason) == ("failed", NO_WEIGHTS)


def test_a_stopped_trial_without_a_process_is_infeasible_where_it_misses_a_constraint(tmp_path: Path) -> None:
    plan = make_plan(config(tmp_path, constraint=["size_m<=5"]))
    with folder.opened(plan) as record:
        run_start.begin_run(plan, record)
        sweep = Steered(record, plan)
        for number, size in ((sweep.begin(), 3.0), (sweep.begin(), 6.0)):
            record.report(number, 1, 0.1, {"score": 0.1, "size_m": size}, 1.0)
            sweep.searcher.requeue(number)
            of = {**record.trials[number].fixed, **record.trials[number].params}
            at = checkpoint_store.folder_of(sweep.folder, number)
            checkpoint_store.write(at, 1, lambda into: (into / "weights.pt").touch(), of)
            sweep.does(f"stop {number}")
        processes: Any = Training()
        StoppedTrials(sweep.commands, sweep.context, sweep.searcher, processes).on_step_end(0, [])
        assert [trial.status for trial in record.trials] == ["stopped", "infeasible"]
        assert record.trials[1].reason == "size_m 6 misses the constraint size_m<=5 in epoch 1"


def test_commands_are_taken_up_between_points_that_are_refused(sweep: Steered) -> None:
    sweep.searcher.refusal = lambda point: Ending("infeasible")
    sweep.searcher.is_to_end = sweep.commands.is_to_end
    sweep.does("set num-trials=500")
    ask(sweep.folder, ["pause"], wait_s=0)
    sweep.now += 1
    assert not sweep.searcher.has_work()
    assert sweep.context.end.outcome == "paused"
    assert len(sweep.record.trials) == 10
    for answer in (sweep.folder / "control").glob("*.answer.json"):
        answer.unlink()
    sweep.does("go")
    ask(sweep.folder, ["finish"], wait_s=0)
    sweep.now += 1
    assert not sweep.searcher.has_work()
    assert sweep.record.planned_trials[-1] == len(sweep.record.trials) == 20


def test_notes_and_tags_are_taken_while_it_runs_and_at_its_end(sweep: Steered) -> None:
    number = sweep.begin(0.5, ended="finished")
    assert sweep.give(f"tag {number} good") == {"text": "Trial 0 has the tags good.", "is_refused": False}
    assert sweep.give("tag 7 good")["is_refused"]
    assert sweep.record.info.steered == ()
    ask(sweep.folder, ["note", "a night's work"], wait_s=0)
    sweep.commands.close()
    (file,) = (sweep.folder / "control").glob("*.answer.json")
    assert json.loads(file.read_text())["text"] == "The sweep has this note."
    seen = Record.read(sweep.folder)
    assert (seen.info.note, list(seen.trials[0].tags)) == ("a night's work", ["good"])
