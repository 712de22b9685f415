"""Rungs are exact, and who goes on from one follows the quantile rule."""

from __future__ import annotations

import pytest

from sweeps.config.sweep_config import SweepConfig
from sweeps.search.rungs import rungs


@pytest.mark.parametrize(
    ("max_epochs", "grace", "factor", "expected"),
    [
        (27, 3, 3, [3, 9]),
        (27, 1, 3, [1, 3, 9]),
        (28, 1, 3, [1, 3, 9, 27]),
        (243, 1, 3, [1, 3, 9, 27, 81]),
        (244, 1, 3, [1, 3, 9, 27, 81, 243]),
        (1000, 1, 10, [1, 10, 100]),
        (1001, 1, 10, [1, 10, 100, 1000]),
        (100, 5, 4, [5, 20, 80]),
        (9, 9, 3, []),
        (1, 1, 2, []),
    ],
)
def test_rungs_are_grace_times_powers_of_the_factor_below_the_end(
    max_epochs: int, grace: int, factor: int, expected: list[int]
) -> None:
    config = SweepConfig.from_settings(max_epochs=max_epochs, grace_epochs=grace, reduction_factor=factor)
    assert rungs(config) == expected


def test_rungs_are_exact_for_every_power() -> None:
    for factor in range(2, 12):
        for power in range(1, 9):
            config = SweepConfig.from_settings(
                max_epochs=factor**power, grace_epochs=1, reduction_factor=factor
            )
            assert rungs(config) == [factor**k for k in range(power)]
