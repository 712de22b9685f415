"""How many trials train how far, as schedulers tell it."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sweeps.config.sweep_config import SweepConfig
from sweeps.schedulers import asha, bohb, halving, hyperband, none
from sweeps.search import cohorts

CONFIG = SweepConfig.of(num_trials=24, max_epochs=27)


@pytest.mark.parametrize("scheduler", [asha, bohb, halving, hyperband, none])
@pytest.mark.parametrize("planned", [[1], [24], [24, 40]])
def test_cohorts_hold_every_trial_once_and_fewer_from_rung_to_rung(
    scheduler: ModuleType, planned: list[int]
) -> None:
    there = cohorts.of(scheduler, CONFIG, planned)
    at = [nth for each in there for nth in range(each.first, each.first + each.size)]
    assert at == list(range(planned[-1]))
    for each in there:
        assert len(each.reach) == len(each.ends)
        assert sum(each.spans) == each.ends[-1] == 27
        assert list(each.reach) == sorted(each.reach, reverse=True)


def test_of_a_scheduler_that_tells_none_every_trial_trains_to_the_end() -> None:
    unknown: Any = SimpleNamespace()
    assert cohorts.expected_epochs(unknown, CONFIG) == 24 * 27


def test_a_sweep_without_trials_takes_no_epochs() -> None:
    assert cohorts.expected_epochs(halving, CONFIG.changed(num_trials=None)) == 0
