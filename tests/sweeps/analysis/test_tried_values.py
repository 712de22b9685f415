"""The values that trials tried, in whatever ranges."""

from __future__ import annotations

from pathlib import Path

from optuna.distributions import FloatDistribution

from sweeps.analysis.tried_values import newest_distributions, tried
from sweeps.record.record import Record
from tests.conftest import propose


def test_the_range_of_a_hyperparameter_holds_all_that_was_tried(tmp_path: Path) -> None:
    """On another scale, chosen by the user beyond it, and fixed for some trials meanwhile."""
    record = Record.create(tmp_path, "s", "max", {"metric": "m"})
    first, second = FloatDistribution(1e-3, 1.0, log=True), FloatDistribution(0.0, 0.5)
    propose(record, {"lr": 0.1}, {"lr": first})
    propose(record, {"lr": 0.0}, {"lr": second})
    propose(record, {"lr": 3.0})
    propose(record, {"width": 8}, fixed={"lr": 2.0})
    found = tried(record.trials)
    assert found.ranges["lr"] == FloatDistribution(0.0, 3.0)
    assert [params["lr"] for params in found.params.values()] == [0.1, 0.0, 3.0, 2.0]
    assert newest_distributions(record.trials) == {"lr": second}
