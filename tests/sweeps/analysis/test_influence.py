"""Hyperparameters without influence, and those that have some though they seem to have none."""

from __future__ import annotations

from pathlib import Path

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution

from sweeps.analysis.influence import NO_INFLUENCE, influence
from tests.support.searched import by_hand, pruned_by_lr


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
