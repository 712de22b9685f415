"""BOHB's scheduler, which is Hyperband by another name."""

from __future__ import annotations

from sweeps.config.sweep_config import SweepConfig
from sweeps.schedulers import bohb, hyperband
from sweeps.search.cohorts import expected_epochs


def test_it_prunes_as_hyperband_does_and_says_its_own_name() -> None:
    config = SweepConfig.of(num_trials=30, max_epochs=27)
    assert bohb.describe(config) == f"bohb: {hyperband.in_words(config)}"
    assert hyperband.describe(config).endswith(hyperband.in_words(config))
    assert expected_epochs(bohb, config) == expected_epochs(hyperband, config)
