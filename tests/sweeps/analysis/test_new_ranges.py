"""Ends of ranges where the best trials lie: none by chance."""

from __future__ import annotations

import random

import pytest
from optuna.distributions import FloatDistribution

from sweeps.analysis.compared_trials import distributions_of
from sweeps.analysis.new_ranges import edges
from sweeps.record.trials import TrialRow
from sweeps.space.point import OptunaPoint


@pytest.mark.parametrize("trials", [10, 24, 40])
def test_of_the_many_ends_of_six_hyperparameters_none_has_the_best_by_chance(trials: int) -> None:
    """The order of the trials is that of their making."""
    ranges = {f"hyperparameter{n}": FloatDistribution(0.0, 1.0) for n in range(6)}
    found = 0
    for seed in range(40):
        source = random.Random(seed)
        rows = [
            TrialRow(number, params, 0, 0.0, optuna=OptunaPoint(params, ranges), status="finished")
            for number in range(trials)
            for params in [{name: source.random() for name in ranges}]
        ]
        found += bool(edges(rows[: max(3, trials // 5)], rows, distributions_of(rows)))
    assert found <= 4
