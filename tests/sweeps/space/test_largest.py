"""The points that cost most: whole numbers at their upper ends, each choice once, no refused point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import optuna
import pytest
from ray import tune

from sweeps.common.errors import UserError
from sweeps.space import conditional, flat, largest
from sweeps.space.multi_model import SeveralSpaces
from sweeps.space.point import Point

MOST = 20_000
FORMS = frozenset({"finite", "continuous", "conditional", "sample_from", "several"})


@dataclass(frozen=True, kw_only=True)
class Params:
    """Hyperparameters of a network."""

    lr: float = 0.1
    width: int = 8
    batch_size: int = 32
    kind: Literal["relu", "gelu", "tanh"] = "relu"

    def __post_init__(self) -> None:
        if self.width * self.batch_size > MOST:
            raise ValueError(f"width x batch_size: at most {MOST}")


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """Hyperparameters without an order."""

    kind_a: str = "first"
    kind_b: str = "first"
    kind_c: str = "first"
    kind_d: str = "first"
    kind_e: str = "first"
    kind_f: str = "first"


def refused(point: Point) -> bool:
    return bool(flat.refusal(Params, {**point.fixed, **point.params}))


def space(**domains: Any) -> flat.FlatSpace:
    return flat.check(domains, Params, {}, FORMS, "random")


def found(of: Any) -> list[dict[str, Any]]:
    return [dict(point.params) for point in largest.points(of, 0, refused)]


def test_whole_numbers_are_at_their_upper_end_and_others_in_the_middle() -> None:
    points = found(
        space(
            lr=tune.loguniform(1e-4, 1e-2),
            width=tune.qrandint(8, 60, 8),
            batch_size=tune.choice([64, 256, 128]),
        )
    )
    assert len(points) == 1
    assert points[0]["lr"] == pytest.approx(1e-3)
    assert (points[0]["width"], points[0]["batch_size"]) == (56, 256)


def test_a_choice_that_is_no_number_has_a_point_for_each() -> None:
    points = found(space(kind=tune.choice(["relu", "gelu", "tanh"]), width=tune.randint(1, 9)))
    assert sorted(point["kind"] for point in points) == ["gelu", "relu", "tanh"]
    assert {point["width"] for point in points} == {8}


def test_where_the_largest_values_exclude_one_another_the_largest_random_point_is_taken() -> None:
    (point,) = found(space(width=tune.randint(1, 301), batch_size=tune.choice([8, 64, 128])))
    assert point["width"] * point["batch_size"] <= MOST < 300 * 128
    assert point["width"] * point["batch_size"] > MOST / 2


def test_each_branch_of_a_conditional_space_has_a_point() -> None:
    def suggest(trial: optuna.Trial) -> None:
        if trial.suggest_categorical("kind", ["relu", "gelu"]) == "relu":
            trial.suggest_int("width", 2, 16, step=2)
        else:
            trial.suggest_int("batch_size", 8, 64)

    of = conditional.check(suggest, Params, {}, FORMS, "random")
    assert found(of) == [{"kind": "relu", "width": 16}, {"kind": "gelu", "batch_size": 64}]


def test_each_of_several_models_has_a_point() -> None:
    of = SeveralSpaces(
        {
            name: flat.check({"width": tune.choice(sizes)}, Params, {}, FORMS, "random", name)
            for name, sizes in {"small": [2, 4], "large": [64, 128]}.items()
        }
    )
    points = largest.points(of, 0, refused)
    assert [(point.trainable, point.params["width"]) for point in points] == [("small", 4), ("large", 128)]


def test_choices_come_in_the_order_in_which_they_are_asked_for() -> None:
    """The first ones are tried, so they must be the same in each process."""
    names = [f"kind_{letter}" for letter in "fcadbe"]

    def suggest(trial: optuna.Trial) -> None:
        for name in names:
            trial.suggest_categorical(name, ["first", "other"])

    asked = conditional.check(suggest, Kinds, {}, FORMS, "random")
    first, *others = (point.params for point in largest.points(asked, 0, lambda point: False))
    assert set(first.values()) == {"first"}
    assert [[name for name in names if point[name] == "other"] for point in others] == [
        [name] for name in names
    ]


def test_several_models_come_in_turn() -> None:
    kinds = {"kind": tune.choice(["relu", "gelu"])}
    of = SeveralSpaces(
        {name: flat.check(kinds, Params, {}, FORMS, "random", name) for name in ("one", "two", "three")}
    )
    points = largest.points(of, 0, refused)
    assert [point.trainable for point in points] == ["one", "two", "three"] * 2


def test_where_every_point_is_refused_there_is_none() -> None:
    def odd(point: Point) -> bool:
        return True

    assert largest.points(space(width=tune.randint(1, 9)), 0, odd) == []


def test_a_space_that_is_no_space_is_refused_before() -> None:
    with pytest.raises(UserError, match="width"):
        space(width="wide")
