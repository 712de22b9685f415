"""The order of trials as they are added, beside the order of all at once."""

from __future__ import annotations

import numpy as np
import pytest

from sweeps.common.pareto import best_first
from sweeps.record.best_first import BestFirst


@pytest.mark.parametrize("objectives", [1, 2, 3])
def test_trials_that_come_in_any_order_are_in_the_order_of_all_at_once(objectives: int) -> None:
    generator = np.random.default_rng(0)
    losses = generator.integers(0, 5, (40, objectives)).astype(float)
    expected = [row for front in best_first(np.column_stack([np.zeros(40), losses])) for row in front]
    order = BestFirst()
    for number in generator.permutation(40).tolist():
        order.add(number, (0.0, *losses[number]))
        assert len(order.first(100)) == len(order)
    assert order.first(40) == expected
    assert [order.place(number, (0.0, *losses[number])) for number in expected] == list(range(40))
    assert order.first(3) == expected[:3]


def test_the_place_of_a_trial_is_known_before_it_is_added() -> None:
    order = BestFirst()
    for number, losses in enumerate([(0.0, 0.1, 0.9), (0.0, 0.9, 0.1), (0.0, 0.9, 0.9)]):
        order.add(number, losses)
    assert order.front() == [0, 1]
    assert order.place(3, (0.0, 0.2, 0.2)) == 0
    assert order.place(3, (0.0, 1.0, 1.0)) == 3
    assert len(order) == 3
    assert order.with_trial(3, (0.0, 0.2, 0.2)).front()[0] == 3


def test_by_one_objective_the_front_is_the_best_trial_alone() -> None:
    order = BestFirst()
    assert order.front() == order.first(5) == []
    for number, loss in enumerate([0.3, 0.1, 0.1]):
        order.add(number, (0.0, loss))
    assert (order.front(), order.first(5)) == ([1], [1, 2, 0])
