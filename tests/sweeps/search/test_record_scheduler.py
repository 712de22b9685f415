"""Trials in the order of their numbers, scores that are judged, and who goes on from a rung."""

from __future__ import annotations

import logging
import math
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from filelock import FileLock
from ray.tune import CheckpointConfig, RunConfig, Trainable, TuneConfig, Tuner, grid_search, with_resources
from ray.tune.experiment import Trial

from sweeps.config.sweep_config import SweepConfig
from sweeps.ray_start import ray_connection
from sweeps.record.record import Record
from sweeps.record.sweep_info import Steered
from sweeps.schedulers.none import Scheduler as NoPruning
from sweeps.search.record_scheduler import LONG_START_S, RecordScheduler, live
from sweeps.training.report import REPORT, Report
from tests.sweeps.schedulers.play import FakeTrial, record_of


class Strict(NoPruning):
    """Stops whatever it judges."""

    def decide(self, number: int, epoch: int, losses: Any = None) -> Any:
        return f"STOP {number} {epoch} {losses}"


def unpruned(record: Record) -> RecordScheduler:
    return RecordScheduler(NoPruning(SweepConfig(), record))


def tune(*trials: FakeTrial) -> Any:
    """As much of Tune as is asked for its trials."""
    return SimpleNamespace(get_live_trials=lambda: set(trials))


def test_the_oldest_trial_that_has_not_started_is_next(tmp_path: Path) -> None:
    scheduler = unpruned(record_of(tmp_path, "max", 0))
    trials = [FakeTrial(number) for number in (10, 9, 2, 3)]
    trials[2].status = Trial.RUNNING
    assert live(tune(*trials)) == [trials[2], trials[3], trials[1], trials[0]]
    assert scheduler.choose_trial_to_run(tune(*trials)) is trials[3]
    assert scheduler.choose_trial_to_run(tune(trials[2])) is None


def test_one_whose_process_starts_is_chosen_again_only_where_there_is_no_other(tmp_path: Path) -> None:
    """Chosen again, it would take a free process, and Tune would end the one that starts."""
    scheduler = unpruned(record_of(tmp_path, "max", 0))
    trials = [FakeTrial(number) for number in range(3)]
    first, second, third = trials
    chosen: list[Any] = [
        scheduler.choose_trial_to_run(tune(*known)) for known in ([first], trials[:2], trials)
    ]
    assert chosen == trials
    assert scheduler.choose_trial_to_run(tune(*trials)) is third, "whose process has the longest to go"
    third.status = Trial.RUNNING
    assert scheduler.choose_trial_to_run(tune(*trials)) is second
    first.status = Trial.RUNNING
    assert scheduler.choose_trial_to_run(tune(first)) is None
    first.status = Trial.PENDING  # it was paused, and is to continue
    assert scheduler.choose_trial_to_run(tune(second, first)) is first


def test_one_that_waits_for_long_has_every_second_turn(tmp_path: Path) -> None:
    """There may be no room for its process; each that becomes free may be the last one."""
    now = [0.0]
    scheduler = RecordScheduler(NoPruning(SweepConfig(), record_of(tmp_path, "max", 0)), clock=lambda: now[0])
    first, *others = trials = [FakeTrial(number) for number in range(5)]
    assert scheduler.choose_trial_to_run(tune(first)) is first
    now[0] = LONG_START_S
    assert scheduler.choose_trial_to_run(tune(*trials[:2])) is others[0]
    now[0] += 1.0
    others[0].status = Trial.RUNNING
    turns = [scheduler.choose_trial_to_run(tune(*trials)) for _ in range(5)]
    assert turns == [first, others[1], first, others[2], first]


def test_a_trial_that_is_to_give_up_its_place_is_stopped_and_not_chosen(tmp_path: Path) -> None:
    scheduler, stopped = unpruned(record_of(tmp_path, "max", 0)), list[Any]()
    first, second = trials = [FakeTrial(number) for number in range(2)]
    scheduler.to_give_up = lambda pending: pending[1:]
    of_tune = SimpleNamespace(get_live_trials=lambda: set(trials), stop_trial=stopped.append)
    assert scheduler.choose_trial_to_run(of_tune) is first
    assert stopped == [second]


STARTS_S = (0.0, 1.5, 3.0)
"""Each process takes longer to start than the one before; a trial takes much less."""


class Slow(Trainable):
    """Trials of an instant in a process that takes its time to start."""

    def setup(self, config: dict[str, Any]) -> None:
        with FileLock(config["starts"] + ".lock"), Path(config["starts"]).open("a+") as starts:
            starts.seek(0)
            before = len(starts.readlines())
            starts.write("started\n")
        time.sleep(STARTS_S[min(before, len(STARTS_S) - 1)])

    def step(self) -> dict[str, Any]:
        time.sleep(0.1)
        return {"process": os.getpid(), "done": True}

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return True


@pytest.mark.long
def test_short_trials_do_not_end_processes_that_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Tune itself: with its own scheduler all trials train in the first process."""
    slots = len(STARTS_S)
    monkeypatch.setenv("TUNE_MAX_PENDING_TRIALS_PG", str(slots))
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    (tmp_path / "record").mkdir()
    scheduler = unpruned(record_of(tmp_path / "record", "max", 0))
    ray.init(
        "local", num_cpus=slots, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
    )
    try:
        tuner = Tuner(
            with_resources(Slow, {"cpu": 1}),
            param_space={"number": grid_search(range(150)), "starts": str(tmp_path / "starts")},
            tune_config=TuneConfig(scheduler=scheduler, reuse_actors=True, max_concurrent_trials=slots),
            run_config=RunConfig(
                storage_path=str(tmp_path),
                verbose=0,
                checkpoint_config=CheckpointConfig(checkpoint_at_end=False),
            ),
        )
        results = tuner.fit()
    finally:
        ray_connection.shut_down(ray)
    assert len({result.metrics["process"] for result in results if result.metrics}) == slots
    assert len((tmp_path / "starts").read_text().splitlines()) == slots, "none was started in vain"


@pytest.mark.parametrize("report", [None, Report(3, math.nan, {}, 1.0)])
def test_a_result_without_a_finite_score_is_not_judged(report: Report | None, tmp_path: Path) -> None:
    scheduler = RecordScheduler(Strict(SweepConfig(), record_of(tmp_path, "max", 1)))
    trial: Any = FakeTrial(0)
    assert scheduler.on_trial_result(None, trial, {REPORT: report}) == "CONTINUE"
    finite = {REPORT: Report(3, 0.5, {}, 1.0)}
    assert scheduler.on_trial_result(None, trial, finite) == "STOP 0 3 (0.0, -0.5)"


class Told(NoPruning):
    """Decides what a test tells it."""

    PAUSES = True
    decisions: dict[int, Any]

    def decide(self, number: int, epoch: int, losses: Any = None) -> Any:
        return self.decisions[number]


class FurthestFirst(Told):
    CONTINUES_FIRST = True


def told(record: Record, decisions: dict[int, Any], kind: type[Told] = Told) -> RecordScheduler:
    method = kind(SweepConfig(), record)
    method.decisions = decisions
    return RecordScheduler(method)


class Tune:
    """As much of Tune as ends trials."""

    def __init__(self, *trials: FakeTrial) -> None:
        self.trials = trials

    def get_live_trials(self) -> list[FakeTrial]:
        return [trial for trial in self.trials if trial.status != Trial.TERMINATED]

    def stop_trial(self, trial: FakeTrial) -> None:
        trial.status = Trial.TERMINATED


def paused(folder: Path, epochs: list[int]) -> tuple[Any, list[FakeTrial]]:
    """A record of trials that wait behind these epochs, and a new one behind them."""
    record = record_of(folder, "max", len(epochs) + 1)
    trials = [FakeTrial(number, Trial.PAUSED, epoch) for number, epoch in enumerate(epochs)]
    for trial in trials:
        record.report(trial.number, trial.epoch, 0.5, {}, 1.0)
    return record, [*trials, FakeTrial(len(epochs))]


@pytest.mark.parametrize(("kind", "number"), [(Told, 3), (FurthestFirst, 1)])
def test_a_new_trial_comes_first_unless_those_that_go_on_do(
    kind: type[Told], number: int, tmp_path: Path
) -> None:
    record, trials = paused(tmp_path, [1, 9, 3])
    scheduler = told(record, dict.fromkeys(range(3), "CONTINUE"), kind)
    chosen: Any = scheduler.choose_trial_to_run(Tune(*trials))
    assert chosen.number == number


@pytest.mark.parametrize(("kind", "numbers"), [(Told, [3, 0, 0, 0]), (FurthestFirst, [1, 2, 0, 3])])
def test_one_that_continues_is_chosen_again_only_where_there_is_no_other(
    kind: type[Told], numbers: list[int], tmp_path: Path
) -> None:
    record, trials = paused(tmp_path, [1, 9, 3])
    scheduler = told(record, dict.fromkeys(range(3), "CONTINUE"), kind)
    chosen: list[Any] = []
    for _ in numbers:
        chosen.append(scheduler.choose_trial_to_run(Tune(*trials)))
        chosen[-1].status = Trial.PENDING  # as Tune notes it
    assert [trial.number for trial in chosen] == numbers


def test_of_many_that_continue_one_at_a_time_waits_for_a_process(tmp_path: Path) -> None:
    record, trials = paused(tmp_path, [1, 9, 3])
    scheduler, known = told(record, dict.fromkeys(range(3), "CONTINUE")), Tune(*trials[:3])
    for number in range(3):
        chosen: Any = scheduler.choose_trial_to_run(known)
        assert chosen.number == number
        chosen.status = Trial.PENDING
        assert scheduler.choose_trial_to_run(known) is chosen
        chosen.status = Trial.RUNNING
    assert scheduler.choose_trial_to_run(known) is None


def test_without_a_new_one_the_first_that_goes_on_is_next(tmp_path: Path) -> None:
    record, trials = paused(tmp_path, [1, 9, 3])
    scheduler = told(record, {0: "PAUSE", 1: "CONTINUE", 2: "CONTINUE"})
    chosen: Any = scheduler.choose_trial_to_run(Tune(*trials[:3]))
    assert chosen.number == 1


def test_one_that_is_not_to_go_on_ends_and_the_others_wait(tmp_path: Path) -> None:
    record, trials = paused(tmp_path, [1, 1])
    tune = Tune(*trials[:2])
    assert told(record, {0: "STOP", 1: "PAUSE"}).choose_trial_to_run(tune) is None
    assert [trial.status for trial in tune.trials] == [Trial.TERMINATED, Trial.PAUSED]


def test_one_that_waits_ends_when_the_user_stops_it(tmp_path: Path) -> None:
    record, trials = paused(tmp_path, [3, 3])
    scheduler = told(record, dict.fromkeys(range(2), "PAUSE"))
    record.note_steered(Steered(["stop", "1"]))
    tune: Any = Tune(*trials)
    scheduler.choose_trial_to_run(tune)
    assert [trial.status for trial in trials[:2]] == [Trial.PAUSED, Trial.TERMINATED]
