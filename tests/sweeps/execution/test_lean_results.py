"""Of the results of trials that have ended Tune keeps next to nothing."""

from __future__ import annotations

from typing import Any

import pytest
from ray.train._internal.session import _TrainingResult
from ray.tune import Checkpoint
from ray.tune.experiment import Trial

from sweeps.execution.driver.lean_results import READ_NO_MORE, LeanResults

ENDS = {"done": True, "epoch": 3, "status": "failed", "reason": "why", "traceback": "where", "trial_id": "t"}
"""What is read once more when the trial has ended."""


@pytest.fixture
def trial() -> Trial:
    return Trial("of nothing", stub=True)


def test_what_was_recorded_is_not_kept(trial: Trial) -> None:
    result: dict[str, Any] = {**ENDS, **dict.fromkeys(READ_NO_MORE, 1.0)}
    LeanResults().on_trial_result(1, [trial], trial, result)
    assert result == ENDS


def test_what_was_recorded_is_not_kept_with_a_checkpoint(trial: Trial) -> None:
    LeanResults().on_trial_save(1, [trial], trial)  # a save that failed: there is no checkpoint
    result: dict[str, Any] = {"training_iteration": 3, **dict.fromkeys(READ_NO_MORE, 1.0)}
    saved = _TrainingResult(Checkpoint("/sweep/trial_0001/checkpoint_000000"), result)
    trial.run_metadata.checkpoint_manager.register_checkpoint(saved)
    LeanResults().on_trial_save(1, [trial], trial)
    assert trial.latest_checkpoint_result is saved
    assert result == {"training_iteration": 3}, "what `Trainable.restore` reads"


@pytest.mark.parametrize("ended", [LeanResults().on_trial_complete, LeanResults().on_trial_error])
def test_of_an_ended_trial_no_statistics_are_kept_but_its_last_result(trial: Trial, ended: Any) -> None:
    trial.update_last_result(dict(ENDS))
    assert trial.metric_analysis.keys() == {"done", "epoch"}
    ended(1, [trial], trial)
    assert not trial.metric_analysis
    assert not trial.metric_n_steps
    assert trial.last_result == ENDS


def test_a_paused_trial_goes_on(trial: Trial) -> None:
    trial.update_last_result({"epoch": 1, "training_iteration": 1})
    LeanResults().on_trial_complete(1, [trial], trial)
    trial.update_last_result({"epoch": 2, "training_iteration": 2})
    assert trial.metric_analysis["epoch"]["last"] == 2
