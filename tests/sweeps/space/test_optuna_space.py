"""Points as Optuna stores them."""

from __future__ import annotations

from typing import Any

import pytest
from optuna.distributions import IntDistribution

from sweeps.space.optuna_space import optuna_point
from sweeps.space.point import Point
from tests.sweeps.space.layered import checked


def test_optuna_is_told_the_range_that_a_point_had() -> None:
    space = checked()
    params = {"lr": 0.1, "layers": 3, "width_2": 6, "width_3": 10}
    words = optuna_point(space, Point("net", params))
    assert words.params == params
    assert words.distributions["width_3"] == IntDistribution(6, 12, step=2)


@pytest.mark.parametrize(
    "params",
    [
        {"lr": 0.1, "layers": 2},
        {"lr": 0.1, "layers": 1, "width_2": 6},
        {"lr": 0.1, "layers": 3, "width_2": 6, "width_3": 4},
        {"lr": 0.1, "layers": 7},
        {"lr": 0.1, "layers": "many"},
        {},
    ],
    ids=["one is missing", "one too many", "out of its range", "of no layer", "no number", "none"],
)
def test_what_suggest_would_not_give_is_no_point(params: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        optuna_point(checked(), Point("net", params))
