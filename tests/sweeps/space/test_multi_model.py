"""The space of several models: which model, and then a point of its space."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution

from sweeps.space.composite import SeveralSpaces
from sweeps.space.flat import FlatSpace
from sweeps.space.optuna_space import optuna_point
from sweeps.space.point import Point
from tests.support.several_models import STEPS, TOY, TOYS, planned


def several(folder: Path) -> SeveralSpaces:
    space = planned(folder).space
    assert isinstance(space, SeveralSpaces)
    return space


def test_a_draw_takes_each_model_as_often_then_a_point_of_it(tmp_path: Path) -> None:
    space = several(tmp_path)
    points = [space.draw((0, number)) for number in range(400)]
    count = Counter(point.trainable for point in points)
    assert 160 < count[TOY] < 240
    for point in points:
        assert set(point.params) <= ({"fault", "slope"} if point.trainable == TOY else {"speed"})
        assert ("speed" in point.fixed) is False
    assert points[7] == space.draw((0, 7))


def test_which_model_is_drawn_tells_nothing_of_its_values(tmp_path: Path) -> None:
    speeds = FlatSpace(**vars(planned(tmp_path).models[1].space))
    space = SeveralSpaces({"a": dataclasses.replace(speeds, trainable="a"), "b": speeds})
    points = [space.draw((0, number)) for number in range(600)]
    of_a = [float(point.params["speed"]) for point in points if point.trainable == "a"]
    of_b = [float(point.params["speed"]) for point in points if point.trainable != "a"]
    assert fmean(of_a) == pytest.approx(fmean(of_b), abs=0.06)


def test_a_grid_of_several_is_the_grids_one_after_another(tmp_path: Path) -> None:
    plan = planned(tmp_path, "grid")
    points = list(plan.space.grid())
    assert [point.trainable for point in points] == [TOY] * 10 + [STEPS] * 2
    assert plan.space.size() == plan.config.num_trials == 12
    assert [point.params for point in points[10:]] == [{"speed": 0.5}, {"speed": 1.0}]


def test_optuna_is_told_the_model_and_its_hyperparameters_by_names_of_their_own(tmp_path: Path) -> None:
    words = optuna_point(several(tmp_path), Point(STEPS, {"speed": 0.5}))
    assert words.params == {"trainable": STEPS, f"{STEPS}.speed": 0.5}
    assert words.distributions == {
        "trainable": CategoricalDistribution(TOYS),
        f"{STEPS}.speed": FloatDistribution(0.1, 1.0),
    }


@pytest.mark.parametrize(
    "point", [Point("another", {"speed": 0.5}), Point(TOY, {"speed": 0.5}), Point(STEPS, {"speed": 9.0})]
)
def test_a_point_of_another_model_or_out_of_its_range_is_none(point: Point, tmp_path: Path) -> None:
    with pytest.raises((LookupError, ValueError), match=r"\w"):
        optuna_point(several(tmp_path), point)
