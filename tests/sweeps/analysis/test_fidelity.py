"""At which epoch trials are compared, and what decides their scores there."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution

from sweeps.analysis import fidelity
from sweeps.analysis import figures as analysis_figures
from sweeps.analysis.fidelity import NO_INFLUENCE, influence
from sweeps.analysis.sweep import Sweep
from tests.support.searched import by_hand, pruned_by_lr


def test_scores_of_different_epochs_are_never_compared(sweeps: dict[str, Sweep]) -> None:
    found = fidelity.fidelity(sweeps["pruned"].record)
    assert found is not None
    assert (found.epoch, len(found.scores)) == (1, 30), "20 are needed, and 10 came to epoch 3"
    record = sweeps["pruned"].record
    assert found.scores == {t.number: t.epochs[1].score for t in record.trials}
    assert found.words == "scores at epoch 1, which 30 of 30 trials reached"
    said = analysis_figures.slices(sweeps["pruned"]).layout.title.subtitle.text
    assert found.words in said


def test_of_few_trials_the_epoch_is_the_last_that_two_thirds_reached(sweeps: dict[str, Sweep]) -> None:
    found = fidelity.fidelity(sweeps["running"].record)
    assert found is not None
    assert (found.epoch, sorted(found.scores)) == (3, [0, 1, 2, 3, 4, 5])


def test_importance_finds_the_hyperparameter_that_decides(sweeps: dict[str, Sweep]) -> None:
    found = fidelity.fidelity(sweeps["pruned"].record)
    assert found is not None
    shares = found.importances
    assert next(iter(shares)) == "lr"
    assert math.isclose(sum(shares.values()), 1)


def test_hyperparameters_of_several_trainables_are_told_apart(sweeps: dict[str, Sweep]) -> None:
    found = fidelity.fidelity(sweeps["several"].record)
    assert found is not None
    hyperparameters = [f"{model}.{name}" for model in ("cnn", "mlp") for name in ("lr", "momentum", "width")]
    assert sorted(found.tried.ranges) == sorted(["trainable", *hyperparameters])


@pytest.mark.parametrize(("effect", "without"), [(0.02, []), (0.0, ["act"])])
def test_a_weak_choice_beside_a_strong_hyperparameter_has_influence(
    effect: float, without: list[str], tmp_path: Path
) -> None:
    """The rate alone decides which are the best; a tenth of them, half of each choice."""
    words = {"lr": FloatDistribution(0, 1), "act": CategoricalDistribution(["relu", "tanh"])}
    params = [{"lr": n / 100, "act": ("relu", "tanh")[n % 2]} for n in range(100)]
    scores = [(0.9 if n >= 90 else 0.5) + effect * (n % 2) for n in range(100)]
    found = influence(by_hand(tmp_path, scores, words, params).record, "")
    assert found is not None
    assert found.at.importances["act"] < NO_INFLUENCE
    assert found.without == without


def test_a_hyperparameter_that_decided_early_or_late_has_influence(tmp_path: Path) -> None:
    found = influence(pruned_by_lr(tmp_path, momentum_matters=0.4).record, "toy")
    assert found is not None
    assert (found.at.epoch, len(found.at.scores), found.early.epoch) == (9, 39, 1)
    assert found.at.importances["momentum"] > 0.5
    assert found.early.importances["lr"] > 0.5
    assert found.early.importances["momentum"] < NO_INFLUENCE
    assert not {"lr", "momentum"} & set(found.without)
