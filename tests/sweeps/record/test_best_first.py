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
        place, is_of_front = order.place(number, own), order.is_of_front(number, own)
        order.add(number, own)
        losses[number] = own
        fronts = order_of(losses)
        expected = [other for front in fronts for other in front]
        assert list(order) == expected
        assert order.first(3) == expected[:3]
        assert order.front() == fronts[0]
        assert (expected[place], is_of_front) == (number, number in fronts[0])
    assert [order.place(number, losses[number]) for number in expected] == list(range(40))
    assert [number for number in expected if order.is_of_front(number, losses[number])] == fronts[0]


def test_the_place_of_a_trial_is_known_before_it_is_added() -> None:
    order = BestFirst()
    for number, losses in enumerate([(0.0, 0.1, 0.9), (0.0, 0.9, 0.1), (0.0, 0.9, 0.9)]):
        order.add(number, losses)
    assert order.front() == [0, 1]
    assert order.place(3, (0.0, 0.2, 0.2)) == 0
    assert order.place(3, (0.0, 1.0, 1.0)) == 3
    assert order.place(3, (0.1, 0.0, 0.0)) == 3, "it misses a constraint"
    assert list(order) == [0, 1, 2]


def test_by_one_objective_the_front_is_the_best_trial_alone() -> None:
    order = BestFirst()
    assert order.front() == order.first(5) == []
    for number, loss in enumerate([0.3, 0.1, 0.1]):
        order.add(number, (0.0, loss))
    assert (order.front(), order.first(5)) == ([1], [1, 2, 0])
