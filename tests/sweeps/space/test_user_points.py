"""A point that the user has chosen is checked value by value, and the defaults are a point."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Any

import optuna
import pytest
from ray import tune

from sweeps.common.errors import UserError
from sweeps.common.param_types import plain_defaults
from sweeps.space import conditional, flat
from sweeps.space.composite import SeveralSpaces
from sweeps.space.optuna_space import optuna_point
from sweeps.space.user_points import Baseline, baseline, user_point

ALL: Any = frozenset({"grid_search", "finite", "continuous", "normal", "sample_from", "conditional"})


@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 0.1
    batch_size: int = 32
    width: int = 8
    depth: int = 2
    kind: str = "a"
    drop: float = 0.0

    def __post_init__(self) -> None:
        if self.batch_size == self.width == 64:
            raise ValueError("width must not be the batch size")


@dataclass(frozen=True, kw_only=True)
class Refusing:
    lr: float = 2.0
    ok: int = 0

    def __post_init__(self) -> None:
        if self.lr == 2.0 and self.ok == 1:
            raise ValueError("lr: must be below 1")


UNFIT = make_dataclass("Unfit", [("lr", float, "0.1"), ("wd", float, 0.05)], frozen=True, kw_only=True)
UNFIT_SPACE = flat.check({name: tune.uniform(0, 1) for name in ("lr", "wd")}, UNFIT, {}, ALL, "random", "net")
SPACE = {
    "lr": tune.loguniform(1e-3, 0.1),
    "batch_size": tune.choice([32, 64]),
    "width": tune.qlograndint(8, 64, 8),
    "kind": tune.choice(["a", "b"]),
    "depth": tune.choice([0, 1]),
}
FLAT = flat.check(SPACE, Params, {"drop": 0.5}, ALL, "random", "net")
GOOD = {"lr": 0.01, "batch_size": 64, "width": 16, "kind": "b", "depth": 1}


def suggest(trial: optuna.Trial) -> None:
    if trial.suggest_categorical("kind", ["a", "b"]) == "b":
        trial.suggest_int("depth", 1, 9, step=2)
    trial.suggest_float("lr", 0.1, 1)


def suggest_rate(trial: optuna.Trial) -> None:
    trial.suggest_float("lr", 0.1, 1)


def faults(space: Any, **values: Any) -> list[str]:
    with pytest.raises(UserError) as raised:
        user_point(space, values)
    return str(raised.value).splitlines()


def test_it_is_a_point_of_the_space() -> None:
    point = user_point(FLAT, GOOD)
    assert (point.trainable, point.params, point.fixed["drop"]) == ("net", GOOD, 0.5)
    assert optuna_point(FLAT, point).params == GOOD
    assert user_point(FLAT, GOOD | {"batch_size": "64", "drop": 0.5}) == point


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"lr": 1}, "lr=1: must be 0.001 to 0.1, log scale; the nearest is 0.1"),
        ({"lr": 1e-5}, "lr=1e-05: must be 0.001 to 0.1, log scale; the nearest is 0.001"),
        ({"lr": "fast"}, "lr=fast: must be a number, 0.001 to 0.1, log scale"),
        ({"lr": True}, "lr=True: must be a number, 0.001 to 0.1, log scale"),
        ({"batch_size": 48}, "batch_size=48: must be one of 32, 64"),
        ({"depth": True}, "depth=True: must be one of 0, 1"),
        ({"width": 20}, "width=20: must be 8 to 64 in steps of 8, log scale; the nearest is 16"),
        ({"width": 21}, "width=21: must be 8 to 64 in steps of 8, log scale; the nearest is 24"),
        ({"kind": "bb"}, "kind=bb: must be one of a, b. Did you mean 'b'?"),
        ({"drop": 0.1}, "drop=0.1: fixed at 0.5 in this sweep"),
        (
            {"widht": 8},
            "widht: no hyperparameter of this search space. Did you mean 'width'? "
            "Hyperparameters: lr, batch_size, width, kind, depth",
        ),
        ({"width": 64}, "width must not be the batch size"),
    ],
)
def test_what_does_not_fit_is_named_with_its_range_and_the_nearest_value(
    values: dict[str, Any], line: str
) -> None:
    assert faults(FLAT, **{**GOOD, **values}) == [line]


def test_all_that_is_missing_is_named_at_once() -> None:
    assert faults(FLAT, lr=7) == [
        "lr=7: must be 0.001 to 0.1, log scale; the nearest is 0.1",
        "batch_size: missing; one of 32, 64",
        "width: missing; 8 to 64 in steps of 8, log scale",
        "kind: missing; one of a, b",
        "depth: missing; one of 0, 1",
    ]


def test_a_conditional_space_asks_for_what_follows_from_the_values() -> None:
    space = conditional.check(suggest, Params, {}, ALL, "random", "net")
    assert user_point(space, {"kind": "a", "lr": 0.5}).params == {"kind": "a", "lr": 0.5}
    assert user_point(space, {"kind": "b", "lr": 1, "depth": 7}).params == {
        "kind": "b",
        "lr": 1.0,
        "depth": 7,
    }
    assert faults(space, kind="b", lr=0.5) == ["depth: missing; 1 to 9 in steps of 2"]
    assert faults(space, kind="b", lr=0.5, depth=4) == [
        "depth=4: must be 1 to 9 in steps of 2; the nearest is 5"
    ]
    assert faults(space, kind="a", lr=0.5, depth=3) == [
        "depth: no hyperparameter of this trial. Hyperparameters: kind, lr"
    ]


def test_values_that_only_random_search_has_are_taken_as_they_are() -> None:
    space = flat.check(
        {"lr": tune.randn(0, 1), "depth": tune.sample_from(lambda _: 3), "kind": tune.choice(["a", "b"])},
        Params, {}, ALL, "random",
    )  # fmt: skip
    params = {"kind": "a", "lr": -4.0, "depth": 5}
    assert user_point(space, params | {"lr": -4}).params == params
    assert faults(space, kind="a", lr=0.0, depth="deep") == ["depth=deep: must be a whole number"]
    assert faults(space, kind="a", depth=1)[0].startswith("lr: missing; its values: normal")


def test_of_several_models_one_is_named() -> None:
    other = flat.check({"lr": tune.uniform(1, 2)}, Params, {}, ALL, "random", "my.other")
    several = SeveralSpaces({"net": FLAT, "my.other": other})
    assert user_point(several, {"my.other.lr": 1.5}).trainable == "my.other"
    assert faults(several, **{"my.other.lr": 3}) == ["lr=3: must be 1 to 2; the nearest is 2"]
    for values in ({"lr": 1.5}, {"net.lr": 0.1, "my.other.lr": 1.5}, {"nat.lr": 0.1}):
        (line,) = faults(several, **values)
        assert "give all hyperparameters of one of them, as net.lr=VALUE." in line
        assert line.endswith("Models: net, my.other")


def baseline_of(space: Any = FLAT, lacking: tuple[str, ...] = (), prepared: tuple[str, ...] = ()) -> Baseline:
    values = {n: v for n, v in plain_defaults(space.params_class).items() if n not in lacking}
    return baseline(space, "net", values, prepared)


def test_the_defaults_are_a_point_also_where_they_lie_outside_the_space() -> None:
    found = baseline_of()
    assert found.point is not None
    assert found.point.params == {"lr": 0.1, "batch_size": 32, "width": 8, "kind": "a", "depth": 2}
    assert (found.point.fixed, found.outside) == ({"drop": 0.5}, ["depth"])
    inside = flat.check({**SPACE, "depth": tune.choice([1, 2])}, Params, {}, ALL, "random", "net")
    assert (point := baseline_of(inside).point) is not None
    assert optuna_point(inside, point).params == point.params
    assert baseline_of(inside).outside == []


def test_the_defaults_are_on_one_branch_of_a_space_that_is_a_function() -> None:
    space = conditional.check(suggest, Params, {}, ALL, "random", "net")
    assert (point := baseline_of(space).point) is not None
    assert point.params == {"kind": "a", "lr": 0.1}
    assert "depth" not in point.fixed


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"lacking": ("lr", "depth", "drop")}, "net has no default for lr, depth"),
        ({"prepared": ("lr", "depth")}, "no data is prepared for depth=2, which lies outside the space"),
        (
            {"space": conditional.check(suggest_rate, Refusing, {"ok": 1}, ALL, "random", "net")},
            "Params refuses its defaults: lr: must be below 1",
        ),
        (
            {"space": UNFIT_SPACE},
            "the default '0.1' of lr must be a number",
        ),
        (
            {"space": UNFIT_SPACE, "lacking": ("wd",)},
            "the default '0.1' of lr must be a number, and net has no default for wd",
        ),
    ],
)
def test_where_the_defaults_are_no_trial_it_is_told_why(given: dict[str, Any], why: str) -> None:
    assert baseline_of(**given) == Baseline("net", why_not=why)
