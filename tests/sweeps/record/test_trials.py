"""The rows of the record, and those of earlier sweeps as text and back."""

from __future__ import annotations

import json
import math

import pytest

from sweeps.common.objective import Mode, Objective
from sweeps.record.trials import NO_EARLIER, Earlier, EpochRow, TrialRow, earlier_of, why_diverged


def row(**scores: float) -> TrialRow:
    """A trial with a score for each epoch: row(e1=0.5)."""
    epochs = {int(epoch[1:]): EpochRow(score, {}, 1.0, 0.0) for epoch, score in scores.items()}
    return TrialRow(number=0, params={"lr": 0.1}, seed=0, start=0.0, epochs=epochs)


@pytest.mark.parametrize(("mode", "epoch", "score"), [("max", 2, 0.9), ("min", 1, 0.2)])
def test_the_best_epoch_is_the_first_with_the_best_finite_score(mode: Mode, epoch: int, score: float) -> None:
    trial, objective = row(e5=math.nan, e4=0.2, e3=0.9, e2=0.9, e1=0.2), Objective("acc", mode)
    assert (trial.best_epoch(objective), trial.best_score(objective)) == (epoch, score)


def test_a_trial_without_a_finite_score_has_no_best_one() -> None:
    for trial in (row(), row(e1=math.nan, e2=math.inf)):
        assert trial.best_epoch(Objective("acc", "max")) is None
        assert trial.best_score(Objective("acc", "max")) is None


def test_the_last_score_is_that_of_the_last_epoch_whatever_came_before() -> None:
    assert row(e10=0.1, e9=0.9).last_score == 0.1
    assert row().last_score is None


def test_earlier_trials_read_back_without_the_scores_that_are_not_finite() -> None:
    known, anchor = row(e1=0.5, e2=math.nan), row(e3=0.7)
    known.status, anchor.origin = "diverged", "trial 3 of wide"
    again = earlier_of(json.loads(json.dumps(Earlier([known], [anchor]).to_json())))
    (trial,), (first,) = again.trials, again.anchors
    assert (trial.params, trial.status, trial.last_score, list(trial.epochs)) == (
        {"lr": 0.1},
        "diverged",
        0.5,
        [1],
    )
    assert (first.origin, first.epochs[3].score) == ("trial 3 of wide", 0.7)
    assert earlier_of(NO_EARLIER.to_json()) == Earlier([], [])


def test_why_a_trial_diverged_names_metric_value_and_epoch() -> None:
    assert why_diverged("val_loss", 4, math.nan) == "val_loss was nan in epoch 4"
