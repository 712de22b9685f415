"""Which of two scores is better, by metric and mode."""

from __future__ import annotations

import math

import pytest

from sweeps.common.objective import Mode, Objective

LOSS, ACCURACY = Objective("loss", "min"), Objective("acc", "max")


@pytest.mark.parametrize(("mode", "better", "worse"), [("min", 0.1, 0.2), ("max", 0.2, 0.1)])
def test_a_better_score_is_better_and_an_equal_one_is_not(mode: Mode, better: float, worse: float) -> None:
    objective = Objective("m", mode)
    assert objective.is_better(better, worse)
    assert not objective.is_better(worse, better)
    assert not objective.is_better(better, better)
    assert objective.sign * better > objective.sign * worse


@pytest.mark.parametrize("objective", [LOSS, ACCURACY])
def test_a_finite_score_beats_none_and_nan_and_nothing_else_is_better_than_any(objective: Objective) -> None:
    assert objective.is_better(0.5, None)
    assert objective.is_better(0.5, math.nan)
    for score in (None, math.nan, math.inf, -math.inf):
        assert not objective.is_better(score, None)
        assert not objective.is_better(score, 0.5)


def test_the_best_is_the_first_of_equals_and_none_where_no_score_is_finite() -> None:
    scores = {"a": None, "b": 0.3, "c": math.nan, "d": 0.1, "e": 0.3, "f": 0.1}
    assert ACCURACY.best(scores, scores.get) == "b"
    assert LOSS.best(scores, scores.get) == "d"
    assert LOSS.best(["a", "c"], scores.get) is None
    assert LOSS.best([], scores.get) is None


def test_the_direction_is_optunas() -> None:
    assert (LOSS.direction, ACCURACY.direction) == ("minimize", "maximize")
