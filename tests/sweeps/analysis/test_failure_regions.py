"""Regions where trials fail or diverge: none by chance."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from optuna.distributions import FloatDistribution

from sweeps.analysis.failure_regions import causes_of, dead_regions
from sweeps.analysis.tried_values import distributions_of
from sweeps.record.trials import Status, TrialRow
from sweeps.space.point import OptunaPoint


@pytest.mark.parametrize("reasons", [("OSError",), ("OSError", "MemoryError", "ValueError: 3")])
def test_of_many_hyperparameters_none_is_cut_by_chance(reasons: Sequence[str]) -> None:
    """A quarter of the trials fails, whatever their hyperparameters are."""
    ranges = {f"hyperparameter{n}": FloatDistribution(0.0, 1.0) for n in range(8)}
    found = 0
    for seed in range(100):
        source = random.Random(seed)
        trials = []
        for number in range(100):
            params = {name: source.random() for name in ranges}
            status: Status = "failed" if source.random() < 0.25 else "finished"
            reason = source.choice(reasons) if status == "failed" else ""
            row = TrialRow(
                number, params, 0, 0.0, optuna=OptunaPoint(params, ranges), status=status, reason=reason
            )
            trials.append(row)
        good = [trial for trial in trials if trial.status == "finished"][:50]
        found += bool(dead_regions(trials, good, distributions_of(trials)))
    assert found <= 5, "of a hundred"


def test_an_error_is_one_cause_in_whatever_worker_it_shows_first() -> None:
    reasons = ("OSError: no file", "OSError: no file (in another worker, on pc2)")
    trials = tuple(TrialRow(n, {}, 0, 0.0, status="failed", reason=each) for n, each in enumerate(reasons))
    (cause,) = causes_of(trials)
    assert (cause.reason, cause.trials) == ("OSError: no file", trials)
