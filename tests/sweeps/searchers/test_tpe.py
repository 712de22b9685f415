"""What TPE models, and at which fidelity."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState
from ray import tune

from sweeps.common.objective import Objective, Objectives
from sweeps.record.trials import EpochRow, Status, TrialRow
from sweeps.searchers import tpe
from sweeps.space.flat import FlatSpace, check
from sweeps.space.optuna_space import optuna_point
from tests.conftest import propose
from tests.sweeps.searchers.play import CONTINUOUS, Params, Play, score_of

ONE = Objectives((Objective("m", "max"),))
SPACE: FlatSpace = check({"width": tune.randint(1, 99)}, Params, {}, tpe.Searcher.TAKES, "tpe")


def frozen(status: Status, scores: dict[int, float], fidelity: int) -> Any:
    trial = TrialRow(number=0, params={"width": 8}, seed=0, start=0.0, status=status)
    trial.epochs = {epoch: EpochRow(score, {}, 1.0, 0.0) for epoch, score in scores.items()}
    return tpe.frozen_trial(trial, fidelity, optuna_point(SPACE, trial.point), ONE)


@pytest.mark.parametrize("status", ["finished", "pruned", "failed", "unfinished"])
@pytest.mark.parametrize(("fidelity", "value"), [(3, 0.9), (9, 0.5)])
def test_a_trial_that_reached_the_fidelity_is_modelled_with_its_score_there_and_no_other(
    status: Status, fidelity: int, value: float
) -> None:
    trial = frozen(status, {3: 0.9, 9: 0.5, 27: 0.7}, fidelity)
    assert (trial.state, trial.value, trial.intermediate_values) == (TrialState.COMPLETE, value, {})


def test_a_pruned_trial_is_modelled_as_pruned_at_the_epoch_where_it_stopped() -> None:
    trial = frozen("pruned", {1: 0.1, 3: 0.2}, 9)
    assert (trial.state, trial.value, trial.last_step) == (TrialState.PRUNED, None, 3)
    assert trial.intermediate_values == {1: 0.1, 3: 0.2}


def test_a_failed_trial_is_modelled_as_a_failure() -> None:
    trial = frozen("failed", {1: 0.1}, 3)
    assert (trial.state, trial.value, trial.last_step) == (TrialState.FAIL, None, None)


@pytest.mark.parametrize("scores", [{}, {1: math.nan}, {1: 0.5, 3: math.nan}, {3: 0.5, 4: math.inf}])
def test_a_diverged_trial_is_the_worst_in_the_model_whatever_it_scored_before(
    scores: dict[int, float],
) -> None:
    trial = frozen("diverged", scores, 3)
    assert (trial.state, trial.value, trial.last_step) == (TrialState.PRUNED, None, None)


def test_an_infeasible_trial_is_the_worst_in_the_model_too() -> None:
    trial = frozen("infeasible", {}, 3)
    assert (trial.state, trial.value, trial.last_step) == (TrialState.PRUNED, None, None)


@pytest.mark.parametrize("scores", [{}, {1: 0.9}])
def test_a_trial_that_still_trains_is_modelled_as_running(scores: dict[int, float]) -> None:
    trial = frozen("unfinished", scores, 3)
    assert (trial.state, trial.value) == (TrialState.RUNNING, None)


def test_a_score_that_is_not_finite_is_never_modelled(tmp_path: Path) -> None:
    # The sweep was interrupted between the report and the end of a trial that diverged.
    trial = frozen("unfinished", {1: 0.5, 3: math.nan}, 3)
    assert trial.state == TrialState.RUNNING


@pytest.mark.parametrize(("epoch", "matters"), [(1, False), (3, True)])
def test_tpe_goes_by_the_highest_rung_that_enough_trials_reached_and_by_no_other(
    epoch: int, matters: bool, tmp_path: Path
) -> None:
    space = check(CONTINUOUS, Params, {}, tpe.Searcher.TAKES, "tpe")

    def next_trial(sign: int) -> Any:
        """After eight trials that reached epoch 3, the scores of one rung with this sign."""
        play = Play("tpe", tmp_path / f"{sign}", CONTINUOUS)
        for number in range(8):
            params = space.draw((9, number)).params
            propose(play.record, params)
            for at in (1, 3):
                play.record.report(number, at, score_of(params) * (sign if at == epoch else 1), {}, 1.0)
            play.record.end(number, "pruned")
        return play.propose()["params"]

    assert (next_trial(1) != next_trial(-1)) is matters


def test_tpe_draws_at_random_until_it_has_a_model(tmp_path: Path) -> None:
    drawn = Play("random", tmp_path / "random", CONTINUOUS).run(3)
    assert Play("tpe", tmp_path / "tpe", CONTINUOUS).run(3) == drawn


def test_by_several_objectives_a_trial_is_modelled_with_all_its_values_and_a_pruned_one_without_any() -> None:
    several = Objectives.parse(["m:max", "size_m:min"])
    trial = TrialRow(number=0, params={"width": 8}, seed=0, start=0.0, status="pruned")
    trial.epochs = {3: EpochRow(0.9, {"m": 0.9, "size_m": 2.0}, 1.0, 0.0)}
    point = optuna_point(SPACE, trial.point)
    there, below = (tpe.frozen_trial(trial, fidelity, point, several) for fidelity in (3, 9))
    assert (there.state, there.values) == (TrialState.COMPLETE, [0.9, 2.0])
    assert (below.state, below.values, below.intermediate_values) == (TrialState.PRUNED, None, {})
