"""Points, and what makes two of them the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sweeps.space.numeric_range import Range
from sweeps.space.point import InvalidPoint, Point, TrialProxy


def test_points_of_one_space_are_the_same_by_trainable_and_swept_values() -> None:
    point = Point("cnn", {"lr": 0.1, "width": 8}, {"rows": 100})
    assert point.key == Point("cnn", {"width": 8, "lr": 0.1}, {"rows": 200}).key
    others = [
        Point("mlp", {"lr": 0.1, "width": 8}),
        Point("cnn", {"lr": 0.1}),
        Point("cnn", {"lr": 0.1, "width": 9}),
    ]
    assert len({point.key, *(other.key for other in others)}) == 4


def test_points_of_several_sweeps_are_the_same_by_all_values_swept_or_fixed() -> None:
    swept, fixed = Point("cnn", {"lr": 0.1, "width": 8}), Point("cnn", {"lr": 0.1}, {"width": 8})
    assert swept.whole == fixed.whole
    assert swept.key != fixed.key
    assert swept.whole != Point("cnn", {"lr": 0.1}, {"width": 9}).whole


def test_a_swept_value_wins_over_a_fixed_one_of_the_same_name() -> None:
    assert Point("cnn", {"lr": 0.1}, {"lr": 0.5}).whole == Point("cnn", {"lr": 0.1}).whole


class Asked(TrialProxy):
    """Answers with the first bound or choice, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def _number(self, name: str, asked: Range) -> float:
        self.asked.append((name, asked))
        return asked.low

    def _choice(self, name: str, choices: Sequence[Any]) -> Any:
        self.asked.append((name, choices))
        return choices[0]


def test_a_proxy_passes_each_call_on_and_answers_in_its_type() -> None:
    trial = Asked()
    rate = trial.suggest_float("lr", 1, 2, log=True)
    assert (rate, type(rate)) == (1.0, float)
    assert trial.suggest_int("width", 8, 64, step=8) == 8
    assert trial.suggest_categorical("kind", ["relu", "gelu"]) == "relu"
    assert trial.asked == [
        ("lr", Range(1, 2, is_log=True)),
        ("width", Range(8, 64, step=8, is_whole=True)),
        ("kind", ["relu", "gelu"]),
    ]


def test_a_point_that_is_none_says_all_that_is_wrong() -> None:
    error = InvalidPoint({"lr": "lr: above 1", "width": "width: missing"})
    assert (str(error), list(error.faults)) == ("lr: above 1; width: missing", ["lr", "width"])
