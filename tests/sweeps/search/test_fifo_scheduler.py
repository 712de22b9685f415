"""Trials in the order of their numbers, and scores that are judged."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.experiment import Trial

from sweeps.config.sweep_config import SweepConfig
from sweeps.search.fifo_scheduler import FifoScheduler, live
from tests.sweeps.schedulers.play import FakeTrial, record_of


class Strict(FifoScheduler):
    """Stops whatever it judges."""

    def judge(self, number: int, epoch: int, score: float) -> str:
        return f"STOP {number} {epoch} {score}"


def tune(*trials: FakeTrial) -> Any:
    """As much of Tune as is asked for its trials."""
    return SimpleNamespace(get_live_trials=lambda: set(trials))


def test_the_oldest_trial_that_has_not_started_is_next(tmp_path: Path) -> None:
    scheduler = FifoScheduler(SweepConfig(), record_of(tmp_path, "max", 0))
    trials = [FakeTrial(number) for number in (10, 9, 2, 3)]
    trials[2].status = Trial.RUNNING
    assert live(tune(*trials)) == [trials[2], trials[3], trials[1], trials[0]]
    assert scheduler.choose_trial_to_run(tune(*trials)) is trials[3]
    assert scheduler.choose_trial_to_run(tune(trials[2])) is None


@pytest.mark.parametrize("result", [{}, {"epoch": 3}, {"epoch": 3, "score": math.nan}, {"score": 0.5}])
def test_a_result_without_a_finite_score_is_not_judged(result: dict[str, Any], tmp_path: Path) -> None:
    scheduler = Strict(SweepConfig(), record_of(tmp_path, "max", 1))
    trial: Any = FakeTrial(0)
    assert scheduler.on_trial_result(None, trial, result) == "CONTINUE"
    assert scheduler.on_trial_result(None, trial, {"epoch": 3, "score": 0.5}) == "STOP 0 3 (0.0, -0.5)"
