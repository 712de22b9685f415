"""Trials that wait at a rung: who goes on, who ends, and who comes first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ray.tune.experiment import Trial

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.sweep_info import Steered
from sweeps.search.pausing_scheduler import PausingScheduler
from tests.sweeps.schedulers.play import FakeTrial, record_of


class Told(PausingScheduler):
    """Decides what a test tells it."""

    def __init__(self, record: Any, decisions: dict[int, str]) -> None:
        super().__init__(SweepConfig(), record)
        self.decisions = decisions

    def decide(self, number: int, epoch: int, score: float | None = None) -> str:
        return self.decisions[number]


class FurthestFirst(Told):
    continues_first = True


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
    scheduler = kind(record, dict.fromkeys(range(3), "CONTINUE"))
    chosen: Any = scheduler.choose_trial_to_run(Tune(*trials))
    assert chosen.number == number


@pytest.mark.parametrize(("kind", "numbers"), [(Told, [3, 0, 0, 0]), (FurthestFirst, [1, 2, 0, 3])])
def test_one_whose_process_starts_is_chosen_again_only_where_there_is_no_other(
    kind: type[Told], numbers: list[int], tmp_path: Path
) -> None:
    record, trials = paused(tmp_path, [1, 9, 3])
    scheduler = kind(record, dict.fromkeys(range(3), "CONTINUE"))
    chosen: list[Any] = []
    for _ in numbers:
        chosen.append(scheduler.choose_trial_to_run(Tune(*trials)))
        chosen[-1].status = Trial.PENDING  # as Tune notes it
    assert [trial.number for trial in chosen] == numbers


def test_of_many_that_continue_one_at_a_time_waits_for_a_process(tmp_path: Path) -> None:
    record, trials = paused(tmp_path, [1, 9, 3])
    scheduler, known = Told(record, dict.fromkeys(range(3), "CONTINUE")), Tune(*trials[:3])
    for number in range(3):
        chosen: Any = scheduler.choose_trial_to_run(known)
        assert chosen.number == number
        chosen.status = Trial.PENDING
        assert scheduler.choose_trial_to_run(known) is chosen
        chosen.status = Trial.RUNNING
    assert scheduler.choose_trial_to_run(known) is None


def test_without_a_new_one_the_first_that_goes_on_is_next(tmp_path: Path) -> None:
    record, trials = paused(tmp_path, [1, 9, 3])
    scheduler = Told(record, {0: "PAUSE", 1: "CONTINUE", 2: "CONTINUE"})
    chosen: Any = scheduler.choose_trial_to_run(Tune(*trials[:3]))
    assert chosen.number == 1


def test_one_that_is_not_to_go_on_ends_and_the_others_wait(tmp_path: Path) -> None:
    record, trials = paused(tmp_path, [1, 1])
    tune = Tune(*trials[:2])
    assert Told(record, {0: "STOP", 1: "PAUSE"}).choose_trial_to_run(tune) is None
    assert [trial.status for trial in tune.trials] == [Trial.TERMINATED, Trial.PAUSED]


def test_one_that_waits_ends_when_the_user_stops_it(tmp_path: Path) -> None:
    record, trials = paused(tmp_path, [3, 3])
    scheduler = Told(record, dict.fromkeys(range(2), "PAUSE"))
    record.note_steered(Steered(["stop", "1"]))
    tune: Any = Tune(*trials)
    scheduler.choose_trial_to_run(tune)
    assert [trial.status for trial in trials[:2]] == [Trial.PAUSED, Trial.TERMINATED]
