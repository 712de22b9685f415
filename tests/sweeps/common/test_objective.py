"""Which of two scores is better, by metric and mode."""

from __future__ import annotations

import math

import pytest

from sweeps.common.objective import Constraint, Mode, Objective, Objectives, split

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


SEVERAL = Objectives.parse(["acc:max", "size_m:min"])


def test_objectives_are_read_from_their_names_and_modes() -> None:
    assert SEVERAL.every == (Objective("acc", "max"), Objective("size_m", "min"))
    assert (SEVERAL.are_several, SEVERAL.metrics, SEVERAL.first) == (
        True,
        ["acc", "size_m"],
        SEVERAL.every[0],
    )
    assert str(SEVERAL) == "acc (max), size_m (min)"
    assert Objectives.parse(["a:b"], "min").every == (Objective("a:b", "min"),)


@pytest.mark.parametrize(
    ("text", "found"),
    [("acc:max", ("acc", "max")), ("a:b:min", ("a:b", "min")), ("acc", ("acc", "")), (":max", (":max", ""))],
)
def test_a_mode_is_what_follows_the_last_colon(text: str, found: tuple[str, str]) -> None:
    assert split(text) == found


def test_losses_are_smaller_where_values_are_better_and_nan_where_one_was_not_logged() -> None:
    assert SEVERAL.values(0.9, {"acc": 0.9, "size_m": 5.0}) == (0.9, 5.0)
    assert SEVERAL.losses(0.9, {"acc": 0.9, "size_m": 5.0}) == (0.0, -0.9, 5.0)
    assert math.isnan(SEVERAL.losses(0.9, {})[2])
    assert Objectives((LOSS,)).losses(0.5, {}) == (0.0, 0.5)


@pytest.mark.parametrize(
    ("text", "value", "excess"),
    [
        ("m<=5", 5.0, 0.0),
        ("m<=5", 6.0, 0.2),
        ("m < 5", 5.0, 1e-9),
        ("m>=0.5", 0.4, 0.2),
        ("m>0", -3.0, 3.0),
        ("m<=1e6", math.nan, math.inf),
    ],
)
def test_a_constraint_tells_by_how_much_it_is_missed_in_units_of_its_bound(
    text: str, value: float, excess: float
) -> None:
    assert Constraint.parse(text).excess({"m": value}) == pytest.approx(excess)
    assert Constraint.parse(text).excess({}) == math.inf


@pytest.mark.parametrize("text", ["m", "m=5", "m<=", "<=5", "m<=five", "m<=inf", "m<=5 ms", "m<<5", ""])
def test_what_is_no_constraint_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"constraint|convert"):
        Constraint.parse(text)


def test_losses_begin_with_what_is_missed_of_all_constraints() -> None:
    objectives = Objectives.parse(["acc:max", "ms:min"], None, ["size_m<=5", "acc>=0.5"])
    assert objectives.losses(0.4, {"acc": 0.4, "ms": 1.0, "size_m": 6.0}) == pytest.approx((0.4, -0.4, 1.0))
    assert objectives.others == ["ms", "size_m"]
    assert str(objectives) == "acc (max), ms (min) with size_m<=5, acc>=0.5"
