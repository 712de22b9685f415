"""BOHB's scheduler, which is Hyperband by another name."""

from __future__ import annotations

from sweeps.config.sweep_config import SweepConfig
from sweeps.schedulers import bohb, hyperband


def test_it_prunes_as_hyperband_does_and_says_its_own_name() -> None:
    config = SweepConfig.from_settings(num_trials=30, max_epochs=27)
    brackets = hyperband.Scheduler.describe(config).removeprefix("hyperband: ")
    assert bohb.Scheduler.describe(config) == f"bohb: {brackets}"
    assert bohb.Scheduler.expected_epochs(config) == hyperband.Scheduler.expected_epochs(config)
