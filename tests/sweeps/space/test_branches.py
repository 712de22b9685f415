"""The branches of a space that is a function, as the plan shows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from sweeps.space.conditional import check


@dataclass(frozen=True, kw_only=True)
class Params:
    optimizer: str = "sgd"
    nesterov: bool = False
    lr: float = 0.1
    momentum: float = 0.0
    layers: int = 1
    width: int = 8
    clip: float | None = None


def by_choice(trial: Any) -> None:
    """Rate and momentum depend on the optimizer."""
    if trial.suggest_categorical("optimizer", ["sgd", "adam", "lion"]) == "sgd":
        trial.suggest_categorical("nesterov", [False, True])
        trial.suggest_float("momentum", 0.5, 0.9)
        trial.suggest_float("lr", 0.01, 1.0, log=True)
    else:
        trial.suggest_float("lr", 1e-4, 1e-2, log=True)


def by_null(trial: Any) -> None:
    if trial.suggest_categorical("clip", [None, 0.5]) is None:
        trial.suggest_int("width", 1, 9)


def by_number(trial: Any) -> None:
    layers = trial.suggest_int("layers", 8, 10)
    trial.suggest_int("width", layers, 2 * layers)


def by_many_numbers(trial: Any) -> None:
    layers = trial.suggest_int("layers", 1, 9)
    trial.suggest_int("width", layers, 2 * layers)


def by_a_fraction(trial: Any) -> None:
    if trial.suggest_float("lr", 0.0, 1.0) > 0.5:
        trial.suggest_int("width", 1, 9)


def by_two(trial: Any) -> None:
    is_sgd = trial.suggest_categorical("optimizer", ["sgd", "adam"]) == "sgd"
    if trial.suggest_categorical("nesterov", [False, True]) == is_sgd:
        trial.suggest_int("width", 1, 9)
    trial.suggest_int("layers", 1, 4 if is_sgd == (trial.suggest_float("lr", 0.0, 1.0) > 0.5) else 2)


SGD, OTHERS = "only with optimizer sgd (N % of points)", "optimizer adam or lion"


@pytest.mark.parametrize(
    ("suggest", "words"),
    [
        (
            by_choice,
            {
                "optimizer": "one of sgd, adam, lion",
                "nesterov": f"one of False, True; {SGD}",
                "momentum": f"0.5 to 0.9; {SGD}",
                "lr": f"0.0001 to 0.01, log scale with {OTHERS}; 0.01 to 1, log scale with optimizer sgd",
            },
        ),
        (by_null, {"clip": "one of null, 0.5", "width": "1 to 9; only with clip null (N % of points)"}),
        (by_number, {"width": "8 to 16 with layers 8; 9 to 18 with layers 9; 10 to 20 with layers 10"}),
        (by_many_numbers, {"width": "within 1 to 18, depending on layers"}),
        (by_a_fraction, {"width": "1 to 9, in N % of points"}),
        (by_two, {"width": "1 to 9, in N % of points", "layers": "within 1 to 4, depending on other hyp"}),
    ],
)
def test_the_plan_says_which_points_have_a_hyperparameter_and_in_which_range(
    suggest: Callable[[Any], object], words: dict[str, str]
) -> None:
    shown = check(suggest, Params, {}, frozenset({"conditional"}), "tpe", "net").describe()
    without_shares = {name: re.sub(r"\d+ %", "N %", text) for name, text in shown.items()}
    assert {name: without_shares[name][: len(text)] for name, text in words.items()} == words
