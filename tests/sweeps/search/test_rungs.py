"""Rungs are exact, and who goes on from one follows the quantile rule."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from sweeps.common.objective import Losses, Mode, Objective, Objectives
from sweeps.common.pareto import priorities
from sweeps.config.sweep_config import SweepConfig
from sweeps.search.rungs import Arrivals, rungs


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
    config = SweepConfig.of(max_epochs=max_epochs, grace_epochs=grace, reduction_factor=factor)
    assert rungs(config) == expected


def test_rungs_are_exact_for_every_power() -> None:
    for factor in range(2, 12):
        for power in range(1, 9):
            config = SweepConfig.of(max_epochs=factor**power, grace_epochs=1, reduction_factor=factor)
            assert rungs(config) == [factor**k for k in range(power)]


def promoted(score: float, others: Sequence[float], factor: int, mode: Mode) -> bool:
    objectives = Objectives((Objective("m", mode),))
    came = Arrivals(factor, [objectives.losses(other, {}) for other in others])
    return came.promotes(objectives.losses(score, {}))


@pytest.mark.parametrize("mode", ["min", "max"])
def test_the_first_at_a_rung_goes_on(mode: Mode) -> None:
    assert promoted(0.0, [], 3, mode)


@pytest.mark.parametrize(
    ("score", "mode", "expected"),
    [(3.0, "max", True), (2.99, "max", False), (2.0, "min", True), (2.01, "min", False)],
)
def test_one_that_equals_the_quantile_goes_on_and_a_worse_one_does_not(
    score: float, mode: Mode, expected: bool
) -> None:
    # 1, 2, 3, 4 by thirds: the best third begins at 3 (max) or at 2 (min).
    assert promoted(score, [1.0, 2.0, 3.0, 4.0], 3, mode) is expected


def test_about_one_in_factor_goes_on() -> None:
    others = [float(value) for value in range(300)]
    assert sum(promoted(value, others, 3, "max") for value in others) == 100


def test_small_is_good_in_mode_min_as_large_is_in_mode_max() -> None:
    others = [0.3, 0.1, 0.8, 0.5]
    for score in (0.0, 0.1, 0.2, 0.4, 0.6, 0.9):
        assert promoted(score, others, 2, "min") == promoted(-score, [-other for other in others], 2, "max")


def test_a_trial_that_misses_a_constraint_goes_on_only_where_too_few_meet_it() -> None:
    met = [(0.0, loss / 10) for loss in range(6)]
    assert not Arrivals(3, met).promotes((0.3, -9.0))
    assert Arrivals(3, [*met, *[(0.5, -9.0)] * 3]).promotes((0.0, 0.05))
    assert Arrivals(3, [(0.2, 0.0), (0.3, 0.0), (0.4, 0.0)]).promotes((0.1, 5.0)), "the nearest to the bound"


def by_the_quantile(losses: Losses, others: Sequence[Losses], factor: int) -> bool:
    """The rule as it is written, of all at once."""
    *before, own = priorities([*others, losses])
    return bool(own >= np.percentile(before, (1 - 1 / factor) * 100))


@pytest.mark.parametrize("factor", [2, 3, 4, 5])
@pytest.mark.parametrize(("objectives", "misses"), [(1, 0.0), (1, 0.3), (2, 0.0), (2, 0.3), (3, 0.1)])
def test_one_after_the_other_is_judged_as_all_at_once(objectives: int, misses: float, factor: int) -> None:
    source, came, others = random.Random(factor), Arrivals(factor), list[Losses]()
    for arrival in range(120):
        missed = source.choice([0.1, 0.2, 0.5]) if source.random() < misses else 0.0
        losses = (missed, *(source.randrange(20) / 20 for _ in range(objectives)))  # so there are equal ones
        if others:
            assert came.promotes(losses) is by_the_quantile(losses, others, factor), f"arrival {arrival}"
        others.append(losses)
        came.add(losses)
