"""How a trial runs."""

from __future__ import annotations

import pytest

from sweeps.training.config import FIT_SETTINGS, FitConfig


def test_the_settings_of_a_single_worker_say_nothing_of_workers() -> None:
    alone = FitConfig(metric="acc", mode="max").settings()
    assert not alone.keys() & {"devices", "num_nodes"}
    assert set(alone) < set(FIT_SETTINGS)


@pytest.mark.parametrize(("devices", "num_nodes", "workers"), [(2, 1, 2), (1, 3, 3), (2, 3, 6)])
def test_the_settings_of_several_workers_say_how_many_and_where(
    devices: int, num_nodes: int, workers: int
) -> None:
    config = FitConfig(devices=devices, num_nodes=num_nodes)
    assert config.workers == workers
    assert config.settings() == {name: getattr(config, name) for name in FIT_SETTINGS}


def test_an_objective_needs_a_metric_and_a_mode() -> None:
    objective = FitConfig(metric="loss", mode="min").objective
    assert (objective.metric, objective.mode) == ("loss", "min")
    with pytest.raises(AssertionError):
        _ = FitConfig(metric="loss").objective
