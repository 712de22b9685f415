"""Ranges that become wider or narrower on their own scale."""

from __future__ import annotations

import random
from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution

from sweeps.space.numeric_range import Range, are_ordered
from sweeps.space.optuna_space import range_of

LR = FloatDistribution(0.001, 1.0, log=True)


@pytest.mark.parametrize(
    ("old", "side", "expected"),
    [
        (Range(0.001, 1.0, is_log=True), "high", (0.001, 5.7)),
        (Range(0.001, 1.0, is_log=True), "low", (0.00017, 1.0)),
        (Range(0.5, 0.9), "high", (0.5, 0.95)),
        (Range(0.0, 0.5, step=0.1), "high", (0.0, 0.7)),
        (Range(0.0, 0.5), "low", (0.0, 0.5)),
        (Range(8, 64, step=8, is_whole=True), "high", (8, 80)),
        (Range(8, 64, step=8, is_whole=True), "low", (8, 64)),
        (Range(1, 3, step=1, is_whole=True), "low", (1, 3)),
        (Range(1, 3, step=1, is_whole=True), "high", (1, 4)),
        (Range(-1.0, 1.0), "low", (-1.5, 1.0)),
    ],
)
def test_a_range_is_widened_in_its_own_steps(old: Range, side: Any, expected: tuple[float, float]) -> None:
    new = old.wider(side)
    assert (new.low, new.high) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Range(1, 1_048_576, step=1, is_whole=True), "1 to 1048576"),
        (Range(8, 1_000_000, step=8, is_whole=True), "8 to 1000000 in steps of 8"),
        (Range(1e-5, 0.1234567, is_log=True), "1e-05 to 0.1234567, log scale"),
        (Range(0.1, 0.1 * 3), "0.1 to 0.3"),
    ],
)
def test_a_range_is_told_as_it_can_be_typed_again(found: Range, text: str) -> None:
    assert str(found) == text


def test_a_range_around_values_holds_them_and_stays_within_the_old_one() -> None:
    old = Range(0.001, 1.0, is_log=True)
    new = old.around([0.02, 0.05, 0.1])
    assert old.low < new.low < 0.02
    assert 0.1 < new.high < old.high
    assert old.around([0.001, 0.9]) == old
    steps = Range(8, 64, step=8, is_whole=True).around([32, 32, 32])
    assert (steps.low, steps.high) == (24, 40)


def test_the_optimum_is_seldom_outside_the_range_around_the_best_of_few() -> None:
    """Of 16 noisy trials of one hyperparameter, the best 4."""
    old, outside = Range(0.0, 1.0), 0
    for seed in range(500):
        source = random.Random(seed)
        optimum = source.random()
        scores = {value: source.gauss(-((value - optimum) ** 2), 0.1) for value in _draws(source, 16)}
        new = old.around(sorted(scores, key=lambda value: -scores[value])[:4])
        outside += not new.low <= optimum <= new.high
    assert outside <= 25


def _draws(source: random.Random, times: int) -> list[float]:
    return [source.random() for _ in range(times)]


def test_choices_are_ordered_where_they_are_numbers_that_grow() -> None:
    assert are_ordered([4, 6, 8])
    assert not are_ordered([4, 8])
    assert not are_ordered([8, 4, 6])
    assert not are_ordered(["a", "b", "c"])
    assert not are_ordered([False, True, 2])
    assert range_of([CategoricalDistribution([4, 6, 8])]) is None
    assert range_of([CategoricalDistribution([0.1, 2.0]), LR]) == Range(0.001, 2.0, is_log=True)
