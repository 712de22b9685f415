"""The order of trials as they are added, beside the order of all at once."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from sweeps.common.objective import Losses
from sweeps.record.pareto import BestFirst, best_first


def order_of(losses: Mapping[int, Losses]) -> list[list[int]]:
    """The fronts of all at once."""
    numbers = sorted(losses)
    found = best_first(np.array([losses[number] for number in numbers]))
    return [[numbers[row] for row in front] for front in found]


@pytest.mark.parametrize("missed", [[0.0], [0.0, 0.0, 0.1, 0.3], [0.2, math.inf]])
@pytest.mark.parametrize("objectives", [1, 2, 3])
def test_trials_that_come_in_any_order_are_in_the_order_of_all_at_once(
    objectives: int, missed: list[float]
) -> None:
    generator = np.random.default_rng(0)
    order, losses = BestFirst(), dict[int, Losses]()
    for number in generator.permutation(40).tolist():
        own = generator.choice(missed), *generator.integers(0, 5, objectives).astype(float).tolist()
        with_it = list(order.with_one(number, own))
        order.add(number, own)
        losses[number] = own
        fronts = order_of(losses)
        expected = [other for front in fronts for other in front]
        assert list(order) == expected
        assert with_it == expected
        assert order.first(3) == expected[:3]
        assert order.front() == fronts[0]


def test_a_trial_that_is_not_added_changes_nothing() -> None:
    order = BestFirst()
    for number, losses in enumerate([(0.0, 0.1, 0.9), (0.0, 0.9, 0.1), (0.0, 0.9, 0.9)]):
        order.add(number, losses)
    assert order.front() == [0, 1]
    assert order.with_one(3, (0.0, 0.2, 0.2)).front()[0] == 3
    assert list(order.with_one(3, (0.1, 0.0, 0.0)))[-1] == 3, "it misses a constraint"
    assert list(order) == [0, 1, 2]


def test_by_one_objective_the_front_is_the_best_trial_alone() -> None:
    order = BestFirst()
    assert order.front() == order.first(5) == []
    for number, loss in enumerate([0.3, 0.1, 0.1]):
        order.add(number, (0.0, loss))
    assert (order.front(), order.first(5)) == ([1], [1, 2, 0])
