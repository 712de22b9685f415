"""Who goes on to the next rung, and who waits for it."""

from __future__ import annotations

from pathlib import Path

from ray.tune.experiment import Trial

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.schedulers import halving
from sweeps.search.promotions import MOST_WAITING, most_waiting
from tests.sweeps.schedulers.play import Play, arrive, decisions, new_record


def test_of_every_three_that_come_the_best_one_that_waits_goes_on(tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=30)
    record = new_record(tmp_path, config)
    assert arrive(config, record, 3, 0.5, 0.9, 0.1) == ["PAUSE", "PAUSE", "PAUSE"]
    assert decisions(config, record, 3) == ["PAUSE", "CONTINUE", "PAUSE"]
    assert arrive(config, record, 3, 0.8, 0.7, 0.6) == ["PAUSE", "PAUSE", "PAUSE"]
    assert decisions(config, record, 3)[3:] == ["CONTINUE", "PAUSE", "PAUSE"]
    assert arrive(config, record, 3, 0.2, 0.3, 0.95) == ["PAUSE", "PAUSE", "CONTINUE"]
    assert decisions(config, Record.read(tmp_path), 3) == decisions(config, record, 3)


def test_none_goes_on_because_it_came_first(tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=30)
    record = new_record(tmp_path, config)
    assert arrive(config, record, 3, 0.9) == ["PAUSE"]


def test_no_more_wait_than_may_have_their_turn(tmp_path: Path) -> None:
    config = SweepConfig.of(num_trials=100)
    record = new_record(tmp_path, config)
    played = Play(config, halving.build(config, record), record, seed="0")
    most = 0
    while played._start():
        played._report(played.random.choice(played._running()))
        most = max(most, sum(trial.status == Trial.PAUSED for trial in played.trials))
    assert MOST_WAITING < most <= most_waiting(config) + 1
