"""Points of every kind of space as rows of numbers, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from ray import tune

from sweeps.space import conditional, flat
from sweeps.space.composite import SeveralSpaces
from sweeps.space.optuna_space import Encoding, axis_of, optuna_point
from sweeps.space.point import Space

TAKES = frozenset({"finite", "continuous", "conditional", "several"})


@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 0.1
    width: int = 8
    activation: str = "relu"
    layers: int = 1
    momentum: float = 0.9


FLAT: Mapping[str, Any] = {
    "lr": tune.loguniform(1e-4, 1.0),
    "width": tune.qlograndint(8, 64, 8),
    "activation": tune.choice(["relu", "gelu", "tanh"]),
    "layers": tune.choice([1, 4, 2]),
    "momentum": tune.quniform(0.1, 0.9, 0.1),
}


def suggest(trial: Any) -> None:
    if trial.suggest_categorical("activation", ["relu", "gelu"]) == "gelu":
        trial.suggest_float("momentum", 0.1, 0.9)
    layers = trial.suggest_int("layers", 1, 3)
    trial.suggest_int("width", 8, 8 * layers, step=8)


def flat_space() -> flat.FlatSpace:
    return flat.check(FLAT, Params, {}, TAKES, "gp", "mlp")


def conditional_space() -> conditional.ConditionalSpace:
    return conditional.check(suggest, Params, {}, TAKES, "gp", "cnn")


SPACES = {
    "flat": flat_space,
    "conditional": conditional_space,
    "several": lambda: SeveralSpaces({"mlp": flat_space(), "cnn": conditional_space()}),
}


@pytest.fixture(params=SPACES)
def space(request: pytest.FixtureRequest) -> Space:
    made: Space = SPACES[request.param]()
    return made


def test_a_point_comes_back_from_its_coordinates(space: Space) -> None:
    encoding, generator = Encoding.from_space(space), np.random.default_rng(0)
    for number in range(40):
        point = space.draw((1, number))
        again = encoding.point(encoding.coordinates(point), generator)
        assert (again.trainable, again.fixed) == (point.trainable, point.fixed)
        assert again.params == pytest.approx(point.params)


def test_random_points_and_neighbours_are_points_of_the_space(space: Space) -> None:
    encoding, generator = Encoding.from_space(space), np.random.default_rng(0)
    drawn = encoding.drawn(generator, 50)
    for coordinates in (*drawn, *encoding.near(drawn, generator)):
        optuna_point(space, encoding.point(coordinates, generator))  # raises otherwise


@pytest.mark.parametrize("name", ["conditional", "several"])
def test_coordinates_are_those_of_a_point_though_each_branch_has_its_own_range(name: str) -> None:
    encoding, generator = Encoding.from_space(SPACES[name]()), np.random.default_rng(0)
    drawn = encoding.drawn(generator, 50)
    for row in (*drawn, *encoding.near(drawn, generator)):
        np.testing.assert_allclose(encoding.coordinates(encoding.point(row, generator)), row, atol=1e-9)


def test_the_grid_is_every_point_of_a_finite_space() -> None:
    finite = {"layers": tune.randint(1, 4), "activation": tune.choice(["relu", "gelu"])}
    spaces = {name: flat.check(finite, Params, {}, TAKES, "gp", name) for name in ("a", "b")}
    encoding = Encoding.from_space(SeveralSpaces(spaces))
    points = [encoding.point(row, np.random.default_rng(0)) for row in encoding.grid()]
    assert [point.key for point in points] == [p.key for each in spaces.values() for p in each.grid()]


def test_neighbours_are_nearer_than_random_points(space: Space) -> None:
    encoding, generator = Encoding.from_space(space), np.random.default_rng(0)
    drawn = encoding.drawn(generator, 200)
    rows, near = encoding.features(drawn), encoding.features(encoding.near(drawn, generator))
    assert np.abs(near - rows).mean() < 0.6 * np.abs(rows[::-1] - rows).mean()
    assert rows.min() >= 0
    assert rows.max() <= 1


def test_the_same_generator_draws_the_same_points(space: Space) -> None:
    encoding = Encoding.from_space(space)
    first, second = (encoding.drawn(np.random.default_rng(3), 9) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_hyperparameter_that_a_point_lacks_is_in_the_middle() -> None:
    space = SPACES["several"]()
    encoding = Encoding.from_space(space)
    of_mlp = next(p for n in range(9) if (p := space.draw((0, n))).trainable == "mlp")
    features = encoding.features(encoding.coordinates(of_mlp)[None])[0]
    places, place = {}, 0
    for name, axis in encoding.axes.items():
        places[name], place = slice(place, place + axis.columns), place + axis.columns
    assert place == len(features)
    assert features[places["cnn.momentum"]].tolist() == [0.5]
    assert features[places["cnn.activation"]].tolist() == [0.5, 0.5]
    assert sorted(features[places["trainable"]]) == [0, 1]


def test_numbers_are_at_their_position_on_their_scale() -> None:
    log = axis_of([FloatDistribution(1e-4, 1.0, log=True)])
    assert log.coordinate(1e-2) == pytest.approx(0.5)
    assert log.value(0.25) == pytest.approx(1e-3)
    whole = axis_of([IntDistribution(1, 5)])
    assert [whole.value(each) for each in (0.1, 0.4)] == [1, 3]
    assert axis_of([IntDistribution(0, 4), IntDistribution(0, 8)]).coordinate(4) == 0.5
    assert axis_of([IntDistribution(3, 3)]).coordinate(3) == 0


@pytest.mark.parametrize(
    "distribution",
    [
        IntDistribution(1, 3),
        FloatDistribution(0.0, 1.0, step=0.5),
        CategoricalDistribution((16, 64, 32)),
        CategoricalDistribution(("a", "b", "c")),
    ],
)
def test_the_ends_are_drawn_as_often_as_the_values_between_them(distribution: BaseDistribution) -> None:
    _, counts = np.unique(axis_of([distribution]).drawn(np.random.default_rng(0), 3000), return_counts=True)
    assert len(counts) == 3
    assert counts == pytest.approx(1000, rel=0.1)


def test_whole_numbers_on_a_log_scale_are_drawn_by_the_width_of_their_interval_there() -> None:
    axis = axis_of([IntDistribution(1, 4, log=True)])
    numbers = [round(axis.value(each)) for each in axis.drawn(np.random.default_rng(0), 9000)]
    shares = [math.log((number + 0.5) / (number - 0.5)) / math.log(9) for number in (1, 2, 3, 4)]
    assert [numbers.count(number) / 9000 for number in (1, 2, 3, 4)] == pytest.approx(shares, abs=0.02)


def test_choices_of_numbers_are_in_order_and_others_side_by_side() -> None:
    numbers = axis_of([CategoricalDistribution((64, 16, 32))])
    assert [numbers.coordinate(value) for value in (16, 32, 64)] == [0, 0.5, 1]
    assert numbers.value(0.6) == 32
    words = axis_of([CategoricalDistribution(("a", "b", "c"))])
    assert words.features(np.array([0.5, math.nan])).tolist() == [[0, 1, 0], [1 / 3, 1 / 3, 1 / 3]]
    flags = axis_of([CategoricalDistribution((True, False))])
    assert flags.columns == 2
    assert flags.value(flags.coordinate(False)) is False
