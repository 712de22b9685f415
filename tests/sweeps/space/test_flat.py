"""A space is checked against Params, all faults at once, and drawn from by seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
from ray import tune
from ray.tune.search.sample import Float

from sweeps.common.errors import UserError
from sweeps.space.domain import Form
from sweeps.space.flat import FlatSpace, check
from sweeps.space.optuna_space import optuna_point

ALL_FORMS: frozenset[Form] = frozenset({"grid_search", "sample_from", "normal", "finite", "continuous"})


@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 0.1
    momentum: float = 0.9
    width: int = 8
    depth: int = 2
    activation: Literal["relu", "gelu"] = "relu"
    name: str = "net"
    bias: bool = True

    def __post_init__(self) -> None:
        if self.momentum >= 1:
            raise ValueError(f"momentum {self.momentum}: must be below 1")


def checked(space: object, fixed: dict[str, Any] | None = None, takes: Any = ALL_FORMS) -> FlatSpace:
    return check(space, Params, fixed or {}, takes, "random")


def faults(space: object, fixed: dict[str, Any] | None = None, takes: Any = ALL_FORMS) -> list[str]:
    with pytest.raises(UserError) as raised:
        checked(space, fixed, takes)
    return str(raised.value).splitlines()


def drawn(space: FlatSpace, *seeds: int) -> dict[str, Any]:
    return dict(space.draw(seeds).params)


WIDE = {
    "lr": tune.loguniform(1e-3, 1.0),
    "momentum": tune.quniform(0.0, 0.9, 0.1),
    "width": tune.qlograndint(8, 64, 8),
    "depth": tune.lograndint(1, 9),
    "activation": tune.choice(["relu", "gelu"]),
    "bias": tune.choice([True, False]),
}


def test_a_draw_of_these_seeds_is_what_it_always_was() -> None:
    """Sweeps are repeated, and gone on with, by another version of this program."""
    expected = {"momentum": 0.3, "width": 16, "depth": 1, "activation": "gelu", "bias": False}
    assert drawn(checked(WIDE), 0, 3, 0) == {"lr": 0.38127937256389305, **expected}


def test_a_draw_stays_inside_its_bounds_and_on_its_grid() -> None:
    space = checked(WIDE)
    points = [drawn(space, 0, number) for number in range(200)]
    assert all(1e-3 <= point["lr"] <= 1.0 for point in points)
    for name in ("momentum", "width", "depth", "activation", "bias"):
        assert {point[name] for point in points} == set(space.domains[name].values() or [])


def test_a_draw_has_the_types_that_params_states() -> None:
    point = drawn(checked({**WIDE, "momentum": tune.choice([0, 0.5])}), 0, 1)
    assert {name: type(value) for name, value in point.items()} == {
        "lr": float,
        "momentum": float,
        "width": int,
        "depth": int,
        "activation": str,
        "bias": bool,
    }


def test_the_same_seeds_draw_the_same_point_and_others_another() -> None:
    space = checked(WIDE)
    assert drawn(space, 7, 3, 0) == drawn(space, 7, 3, 0)
    assert len({space.draw(seeds).key for seeds in [(7, 3, 0), (8, 3, 0), (7, 4, 0), (7, 3, 1)]}) == 4


def test_the_same_hyperparameter_is_drawn_alike_whatever_was_drawn_before() -> None:
    first, again = checked(WIDE), checked(WIDE)
    for number in range(5):
        drawn(first, 0, number)
    assert drawn(first, 0, 9) == drawn(again, 0, 9)


def test_a_draw_leaves_the_global_random_state_alone() -> None:
    noisy = tune.sample_from(lambda config: random.random() + float(np.random.random()))
    before = random.getstate(), np.random.get_state()[1].tolist()
    drawn(checked({**WIDE, "lr": noisy}), 0, 0)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_a_sample_from_that_draws_by_itself_is_seeded_too() -> None:
    space = checked({"lr": tune.sample_from(lambda config: random.random() + float(np.random.random()))})
    assert drawn(space, 1, 0) == drawn(space, 1, 0)
    assert drawn(space, 1, 0) != drawn(space, 1, 1)


@pytest.mark.parametrize(
    "reads",
    [lambda config: config["width"] / 100, lambda spec: spec.config.width / 100],
    ids=["by config", "by spec"],
)
def test_a_sample_from_reads_another_hyperparameter_wherever_it_stands(reads: Callable[[Any], float]) -> None:
    # The hyperparameter that it reads comes after it.
    point = drawn(checked({"lr": tune.sample_from(reads), "width": tune.randint(1, 99)}), 0, 0)
    assert point["lr"] == point["width"] / 100
    assert list(point) == ["lr", "width"]


def test_a_normal_domain_is_drawn_and_has_no_word_in_optuna() -> None:
    space = checked({"lr": tune.randn(5.0, 0.1), "width": tune.randint(1, 9)})
    assert all(4 < float(drawn(space, 0, number)["lr"]) < 6 for number in range(50))
    assert list(optuna_point(space, space.draw((0, 0))).distributions) == ["width"]


def test_the_grid_is_every_point_once_the_last_hyperparameter_changing_fastest() -> None:
    space = checked({"width": tune.grid_search([4, 8]), "lr": tune.quniform(0.1, 0.3, 0.1)})
    assert space.size() == 6
    assert [point.params for point in space.grid()] == [
        {"width": w, "lr": lr} for w in (4, 8) for lr in (0.1, 0.2, 0.3)
    ]


def test_a_continuous_hyperparameter_makes_a_space_endless() -> None:
    assert checked(WIDE).size() == float("inf")


def test_hyperparameters_that_are_not_swept_are_fixed_at_what_was_given_or_the_default() -> None:
    space = checked({"lr": tune.uniform(0, 1)}, {"width": 16, "momentum": 0})
    assert dict(space.fixed) == {
        "momentum": 0.0,
        "width": 16,
        "depth": 2,
        "activation": "relu",
        "name": "net",
        "bias": True,
    }
    assert type(space.fixed["momentum"]) is float


@pytest.mark.parametrize("space", [{}, None, [1], "lr"])
def test_an_empty_space_is_refused_with_an_example(space: object) -> None:
    assert faults(space) == [
        "SPACE must be a dict with at least one hyperparameter, such as {'lr': tune.loguniform(1e-3, 0.1)}"
    ]


def _log_from_zero() -> Float:
    domain = Float(0.0, 1.0)  # tune.loguniform(0, 1) raises already where it is written
    domain.set_sampler(Float._LogUniform())
    return domain


@pytest.mark.parametrize(
    ("name", "domain", "expected"),
    [
        ("widht", tune.randint(1, 9),
         "widht: no such hyperparameter of Params. Did you mean 'width'? Hyperparameters: lr, mom"),
        ("lr", 0.1, "lr: 0.1 is not a ray.tune domain; a fixed hyperparameter is given as --params lr=0.1"),
        ("lr", [0.1, 0.2], "lr: [0.1, 0.2] is not a ray.tune domain; to choose one of these values, write "
         "tune.choice([0.1, 0.2])"),
        ("lr", (0.1, 0.2), "lr: (0.1, 0.2) is not a ray.tune domain; to choose one of these values, write "
         "tune.choice([0.1, 0.2])"),
        ("lr", tune.choice(["big"]), "lr: 'big': must be a number"),
        ("lr", tune.choice([]), "lr: no value to choose from"),
        ("lr", tune.grid_search([]), "lr: no value to choose from"),
        ("lr", {"grid_search": 3}, "lr: {'grid_search': 3} is not a ray.tune domain; write one of "),
        ("lr", "1e-3..1:log", "lr: '1e-3..1:log' is not a ray.tune domain; a range as text is given as "
         "--ranges lr=1e-3..1:log, and here as tune.uniform(0, 1)"),
        ("lr", tune.choice([0.1, 0.1]), "lr: a value occurs twice in [0.1, 0.1]"),
        ("lr", tune.uniform(1.0, 0.0), "lr: bounds reversed: 1 to 0"),
        ("width", tune.randint(5, 2), "width: bounds reversed: 5 to 2"),
        ("width", tune.randint(3, 3), "width: empty: no value from 3 to 3"),
        ("width", tune.randint(0, 2**64), "width: whole numbers must have at most 64 bits"),
        ("lr", tune.quniform(0, 1, 1 / 3), "lr: steps of 0.3333333333333333: give a step with at most 10"),
        ("width", tune.qrandint(11, 19, 10), "width: empty: no value from 11 to 19"),
        ("lr", _log_from_zero(), "lr: log scale from 0: the lower bound must be above 0"),
        ("width", tune.uniform(1, 9), "width: the space gives fractions, Params.width is int; use tune.rand"),
        ("width", tune.qrandn(32, 8, 1), "width: the space gives fractions, Params.width is int; use tune"),
        ("name", tune.randn(), "name: the space gives fractions, Params.name is str; use tune.randint"),
        ("width", tune.sample_from(lambda _: 3.0), "width: tune.sample_from gave 3.0: must be a whole"),
        ("name", tune.randint(1, 9), "name: the space gives whole numbers, Params.name is str"),
        ("width", tune.choice([True]), "width: True: must be a whole number"),
        ("width", tune.choice([[1, 2]]), "width: [1, 2]: must be a whole number"),
        ("activation", tune.choice(["rel"]), "activation: 'rel': must be one of relu, gelu. Did you"),
        ("momentum", tune.uniform(0.0, 1.0), "momentum: momentum 1.0: must be below 1"),
        ("momentum", tune.grid_search([0.5, 2.0]), "momentum: momentum 2.0: must be below 1"),
    ],
)  # fmt: skip
def test_a_bad_hyperparameter_is_named_with_its_value_and_what_it_must_be(
    name: str, domain: Any, expected: str
) -> None:
    (fault,) = faults({name: domain})
    assert fault.startswith(expected)


def test_all_faults_of_a_space_are_found_at_once() -> None:
    found = faults(
        {"lrr": tune.uniform(0, 1), "width": tune.choice([]), "depth": tune.randint(5, 2), "lr": 3},
        {"widht": 8, "momentum": "high", "bias": 1},
    )
    assert [fault.split(":")[0] for fault in found] == [
        "lrr",
        "width",
        "depth",
        "lr",
        "--params widht",
        "--params momentum=high",
        "--params bias=1",
    ]
    assert "Did you mean 'width'?" in found[4]


def test_a_hyperparameter_cannot_be_swept_and_fixed() -> None:
    assert faults({"lr": tune.uniform(0, 1)}, {"lr": 0.1}) == [
        "lr: swept by the space and fixed by --params; take it out of one, or give --freeze"
    ]


def test_params_may_refuse_what_is_fixed() -> None:
    assert faults({"lr": tune.uniform(0, 1)}, {"momentum": 1.5}) == [
        "--params: momentum 1.5: must be below 1",
    ]


@pytest.mark.parametrize(
    ("kind", "domain"),
    [
        ("grid_search", tune.grid_search([0.1])),
        ("sample_from", tune.sample_from(lambda: 0.1)),
        ("normal", tune.randn(0, 1)),
        ("finite", tune.choice([0.1])),
        ("continuous", tune.uniform(0, 1)),
    ],
)
def test_a_form_that_the_searcher_cannot_take_is_refused_with_a_way_out(kind: Form, domain: Any) -> None:
    (fault,) = faults({"lr": domain}, takes=ALL_FORMS - {kind})
    assert fault.startswith("lr: searcher random can't take ")
    assert "Use " in fault
    assert checked({"lr": domain}).domains["lr"].tune is domain
