"""Trials that are opened again come late to their rungs: they change no decision about others, live or after
a kill."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from ray.tune.experiment import Trial

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.schedulers import asha, halving, hyperband
from tests.sweeps.schedulers.play import Play, arrive, decide, decisions, new_record, record_of, resumed

SCHEDULERS = pytest.mark.parametrize("scheduler", [halving.Scheduler, asha.Scheduler, hyperband.Scheduler])
FAILS = {**dict.fromkeys(range(0, 24, 2), 4), **dict.fromkeys(range(0, 24, 6), 10), 1: 2, 5: 1, 11: 0, 17: 3}
"""Many of these trials are pruned before."""


def retry(play: Play, kept_epochs: int) -> list[int]:
    """Open those that have failed again; their numbers."""
    assert play.record is not None
    failed = [trial.number for trial in play.record.trials if trial.status == "failed"]
    for number in failed:
        kept = min(kept_epochs, len(play.record.trials[number].epochs))
        method = type(play.scheduler._method).for_record(play.config, play.record)
        decided = method.decided_rungs(number)
        play.record.open_again(number, kept, "retried", decided_rungs=decided)
        play.fails.pop(number, None)
        play.trials[number].status, play.trials[number].epoch = Trial.PENDING, max(0, kept - 1)
    return failed


def check_a_kill_changes_nothing(scheduler: Any, config: SweepConfig, record: Record) -> None:
    live, again = scheduler.for_record(config, record), Record.read(record.folder)
    anew = scheduler.for_record(config, again)
    for trial in record.trials:
        if trial.status == "unfinished" and (last := len(trial.epochs)):
            assert anew.decide(trial.number, last) == live.decide(trial.number, last), trial.number


@SCHEDULERS
@pytest.mark.parametrize(("seed", "kept_epochs"), [(0, 0), (1, 3)])
def test_a_sweep_in_which_trials_are_retried_decides_what_the_record_says(
    seed: int, kept_epochs: int, scheduler: Any, tmp_path: Path
) -> None:
    config = SweepConfig.from_settings(num_trials=24)
    record, when = new_record(tmp_path, config), random.Random(seed)
    play = Play(config, scheduler.build(config, record), record, f"{seed}", fails=dict(FAILS))
    retried = set[int]()
    while True:
        play.run(when.randint(5, 40))
        check_a_kill_changes_nothing(scheduler, config, record)
        retried |= set(failed := retry(play, kept_epochs))
        check_a_kill_changes_nothing(scheduler, config, record)
        if not failed and not record.live:
            break
    assert {1, 5, 11} < retried
    assert all(trial.status in ("pruned", "finished") for trial in record.trials)
    assert len(record.trials) == 24
    assert {len(trial.epochs) for trial in record.trials} <= {3, 9, 27}


@SCHEDULERS
def test_trials_that_are_retried_at_the_end_change_no_other(scheduler: Any, tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=24)
    record = new_record(tmp_path, config)
    play = Play(config, scheduler.build(config, record), record, "0", fails=dict(FAILS))
    before = play.run()
    rows = list(record.trials)
    failed = retry(play, 0)
    after = play.run()
    for number in before.keys() - failed:
        assert record.trials[number] is rows[number]
    assert {after[number] for number in failed} <= {3, 9, 27}
    further = [number for number in failed if before[number] > 3]
    assert further
    assert all(after[number] >= 9 for number in further), "they had been promoted before they failed"


@SCHEDULERS
def test_a_kill_amid_late_trials_ends_no_other_trial_elsewhere(scheduler: Any, tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=24)
    record = new_record(tmp_path, config)
    play = Play(config, scheduler.build(config, record), record, "0", fails=dict(FAILS))
    before = play.run()
    failed = retry(play, 0)
    play.run(4)
    again = Record.read(tmp_path)
    resumed(scheduler, config, again, "1").run()
    assert not again.live
    for number in before.keys() - failed:
        assert len(again.trials[number].epochs) == before[number]


def test_a_sweep_whose_trials_have_all_failed_has_its_brackets_once_more(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=17)
    record = new_record(tmp_path, config)
    fails = dict.fromkeys(range(17), 0)
    play = Play(config, hyperband.Scheduler.build(config, record), record, "0", fails=fails)
    play.run()
    retry(play, 0)
    reached = play.run()
    whole = new_record(tmp_path / "whole", config)
    assert reached == Play(config, hyperband.Scheduler.build(config, whole), whole, "0").run()


def test_a_late_trial_takes_only_a_promotion_that_is_left(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(num_trials=6)
    record = new_record(tmp_path, config)
    assert arrive(config, record, 3, 0.1, 0.2, 0.9, 0.8, 0.7)[2] == "CONTINUE"
    late = record.begin(record.trials[0].point, record.trials[0].optuna, 0).number
    record.end(late, "failed")
    assert decisions(config, record, 3)[2:4] == ["CONTINUE", "CONTINUE"], "no other can come"
    for epoch in range(4, 10):
        record.report(3, epoch, 0.8, {}, 1.0)
    record.open_again(late, 0, "retried")
    made = halving.Scheduler.for_record(config, record)
    assert made.decide(late, 3, record.objectives.losses(0.95, {})) == "STOP"
    record.report(late, 3, 0.95, {}, 1.0)
    assert decisions(config, Record.read(tmp_path), 3)[2:4] == ["CONTINUE", "CONTINUE"]


def test_after_a_kill_one_that_went_on_as_the_last_does_not_wait(
    tmp_path: Path,
) -> None:
    config = SweepConfig.from_settings(num_trials=5)
    record = new_record(tmp_path, config)
    arrive(config, record, 3, 0.9, 0.2, 0.1, 0.8, 0.7)
    record.end(0, "failed")
    for worst in (1, 2):
        record.end(worst, "pruned")
    assert decisions(config, record, 3)[3:] == ["CONTINUE", "PAUSE"]
    record.report(3, 4, 0.8, {}, 1.0)
    assert decisions(config, record, 3)[3:] == ["CONTINUE", "PAUSE"]
    assert decisions(config, Record.read(tmp_path), 3)[3:] == ["CONTINUE", "PAUSE"]
    record.end(3, "failed")
    for each in (record, Record.read(tmp_path)):
        assert decisions(config, each, 3)[4] == "CONTINUE", "it takes the place of the one that failed"


def test_asha_lets_a_trial_pass_again_what_it_has_passed_and_nothing_else(tmp_path: Path) -> None:
    record = record_of(tmp_path, "max", 7)
    scheduler = asha.Scheduler.build(SweepConfig(), record)
    assert decide(scheduler, record, 0, 3, 0.5) == "CONTINUE"
    record.end(0, "failed")
    for number in range(1, 6):
        assert decide(scheduler, record, number, 3, 0.9) == "CONTINUE"
    assert decide(scheduler, record, 6, 3, 0.4) == "STOP"
    record.end(6, "infeasible")
    for number, decision in ((0, "CONTINUE"), (6, "STOP")):
        record.open_again(number, 0, "retried")
        assert decide(scheduler, record, number, 3, 0.6) == decision
        again = asha.Scheduler.for_record(SweepConfig(), Record.read(tmp_path))
        assert again.decide(number, 3) == decision
    record.end(6, "infeasible")
    record.open_again(6, 0, "retried")
    assert decide(scheduler, record, 6, 3, 0.95) == "CONTINUE", "it is judged as one that arrives now"
