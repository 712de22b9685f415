"""Fronts, knees and epsilon-nets, beside what they are by definition."""

from __future__ import annotations

import numpy as np
import pytest

from sweeps.record.pareto import Array, best_first, fronts, priorities


def dominates(one: Array, other: Array) -> bool:
    return bool((one <= other).all() and (one < other).any())


def peeled(losses: Array) -> list[list[int]]:
    """The fronts by their definition."""
    left, found = list(range(len(losses))), []
    while left:
        front = [row for row in left if not any(dominates(losses[other], losses[row]) for other in left)]
        found.append(front)
        left = [row for row in left if row not in front]
    return found


def with_violations(losses: Array, violations: object = 0.0) -> Array:
    return np.column_stack([np.broadcast_to(np.asarray(violations, float), len(losses)), losses])


def knee(front: Array) -> int:
    return best_first(with_violations(front))[0][0]


@pytest.mark.parametrize("objectives", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_fronts_are_those_of_the_definition_with_equal_points_too(objectives: int, seed: int) -> None:
    losses = np.random.default_rng(seed).integers(0, 6, (60, objectives)).astype(float)
    assert fronts(losses) == peeled(losses)


@pytest.mark.parametrize("objectives", [2, 3])
def test_no_trial_is_better_than_one_before_it(objectives: int) -> None:
    losses = np.random.default_rng(0).random((80, objectives))
    order = [row for front in best_first(with_violations(losses)) for row in front]
    assert sorted(order) == list(range(80))
    for place, row in enumerate(order):
        assert not any(dominates(losses[later], losses[row]) for later in order[place + 1 :])


def test_by_one_objective_the_order_is_that_of_its_values_and_the_earlier_of_equals_is_first() -> None:
    losses = np.array([[0.3], [0.1], [0.3], [0.2]])
    assert best_first(with_violations(losses)) == [[1], [3], [0], [2]]


def test_the_knee_is_the_point_furthest_from_the_line_between_the_ends() -> None:
    front = np.array([[0.0, 1.0], [0.1, 0.3], [0.4, 0.2], [1.0, 0.0]])
    assert knee(front) == 1
    assert knee(front * [1e-3, 1e6] + [5.0, -7.0]) == 1, "whatever the units"
    assert knee(np.array([[1.0, 0.0], [0.0, 1.0]])) == 1, "of two ends that with the best first objective"
    assert knee(np.array([[0.5, 0.5], [0.5, 0.5]])) == 0


def test_within_a_front_each_next_point_is_the_furthest_from_all_before_it() -> None:
    losses = np.array([[0.0, 1.0], [0.1, 0.3], [0.12, 0.29], [0.4, 0.2], [1.0, 0.0]])
    (front,) = best_first(with_violations(losses))
    assert front == [1, 4, 0, 3, 2], "the knee, both ends, what is between, at last the neighbour of the knee"


def test_a_point_that_misses_a_constraint_is_behind_all_that_do_not() -> None:
    losses = np.array([[0.0, 0.0], [0.5, 0.5], [0.9, 0.9], [0.1, 0.1]])
    assert best_first(with_violations(losses, [0.2, 0.0, 0.0, 0.1])) == [[1], [2], [3], [0]]
    assert best_first(with_violations(losses[:, :1], [0.2, 0.0, 0.0, 0.1])) == [[1], [2], [3], [0]]


def test_priorities_are_the_values_of_one_objective_and_the_places_by_several() -> None:
    assert priorities([(0.0, 0.3), (0.0, 0.1)]).tolist() == [-0.3, -0.1]
    assert priorities([(0.0, 0.3), (0.5, 0.1)]).tolist() == [0, -1]
    assert priorities([(0.0, 2.0, 2.0), (0.0, 1.0, 1.0), (0.0, 3.0, 3.0)]).tolist() == [-1, 0, -2]


def test_a_front_of_thousands_is_found_in_one_go() -> None:
    angles = np.linspace(0, np.pi / 2, 3000)
    circle = np.column_stack([1 - np.sin(angles), 1 - np.cos(angles)])
    (front,) = best_first(with_violations(circle))
    assert set(front[1:3]) == {0, 2999}
