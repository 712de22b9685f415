"""The points that cost most: whole numbers at their upper ends, each choice once, no refused point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import optuna
import pytest
from ray import tune

from sweeps.common.errors import UserError
from sweeps.execution.preflight import largest_point
from sweeps.space import conditional, flat
from sweeps.space.composite import SeveralSpaces
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


def refused(point: Point) -> bool:
    return bool(flat.refusal(Params, {**point.fixed, **point.params}))


def space(**domains: Any) -> flat.FlatSpace:
    return flat.check(domains, Params, {}, FORMS, "random")


def found(of: Any) -> dict[str, Any]:
    point = largest_point(of, 0, refused)
    assert point is not None
    return dict(point.params)


def test_whole_numbers_are_at_their_upper_end_and_others_in_the_middle() -> None:
    point = found(
        space(
            lr=tune.loguniform(1e-4, 1e-2),
            width=tune.qrandint(8, 60, 8),
            batch_size=tune.choice([64, 256, 128]),
        )
    )
    assert point["lr"] == pytest.approx(1e-3)
    assert (point["width"], point["batch_size"]) == (56, 256)


def test_where_the_largest_values_exclude_one_another_the_largest_random_point_is_taken() -> None:
    point = found(space(width=tune.randint(1, 301), batch_size=tune.choice([8, 64, 128])))
    assert point["width"] * point["batch_size"] <= MOST < 300 * 128
    assert point["width"] * point["batch_size"] > MOST / 2


def test_the_branch_of_a_conditional_space_with_the_largest_numbers_is_taken() -> None:
    def suggest(trial: optuna.Trial) -> None:
        if trial.suggest_categorical("kind", ["relu", "gelu"]) == "relu":
            trial.suggest_int("width", 2, 16, step=2)
        else:
            trial.suggest_int("batch_size", 8, 64)

    of = conditional.check(suggest, Params, {}, FORMS, "random")
    assert found(of) == {"kind": "gelu", "batch_size": 64}


def test_of_several_models_the_largest_is_taken() -> None:
    of = SeveralSpaces(
        {
            name: flat.check({"width": tune.choice(sizes)}, Params, {}, FORMS, "random", name)
            for name, sizes in {"small": [2, 4], "large": [64, 128]}.items()
        }
    )
    point = largest_point(of, 0, refused)
    assert point is not None
    assert (point.trainable, point.params["width"]) == ("large", 128)


def test_where_every_point_is_refused_there_is_none() -> None:
    def odd(point: Point) -> bool:
        return True

    assert largest_point(space(width=tune.randint(1, 9)), 0, odd) is None


def test_a_space_that_is_no_space_is_refused_before() -> None:
    with pytest.raises(UserError, match="width"):
        space(width="wide")
