"""Values of hyperparameters and the types of the fields of Params."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from sweeps.common.param_types import cast, checked, given, hints_of, type_fault


@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 0.1
    width: int = 8
    optimizer: Literal["sgd", "adam"] = "sgd"
    warmup: int | Literal["auto"] = "auto"
    nesterov: bool = False

    def __post_init__(self) -> None:
        if self.width > 64:
            raise ValueError("width: at most 64")


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("lr", 1, ""),
        ("lr", True, "must be a number"),
        ("width", 1.0, "must be a whole number"),
        ("width", None, "a hyperparameter's value is a number, a string, true or false, not NoneType"),
        ("optimizer", "adam", ""),
        ("optimizer", "adan", "must be one of sgd, adam. Did you mean 'adam'?"),
        ("warmup", "auto", ""),
        ("nesterov", True, ""),
        ("nesterov", 1, "must be true or false"),
    ],
)
def test_a_value_that_does_not_fit_its_field_is_told_what_it_must_be(
    name: str, value: Any, fault: str
) -> None:
    assert type_fault(value, hints_of(Params)[name]) == fault


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, float, 1.0),
        (1, int, 1),
        (True, float, True),
        (np.float32(0.5), float, 0.5),
        (np.int64(3), float, 3.0),
    ],
)
def test_a_value_becomes_a_plain_one_of_its_fields_type(value: Any, hint: Any, expected: Any) -> None:
    made = cast(value, hint)
    assert (made, type(made)) == (expected, type(expected))


def test_what_fits_is_kept_and_every_fault_is_told() -> None:
    values, faults = given(Params, {"lr": 1, "widht": 4, "nesterov": "yes"})
    assert (values, type(values["lr"])) == ({"lr": 1.0}, float)
    assert [fault.split(":")[0] for fault in faults] == ["--params widht", "--params nesterov=yes"]
    assert "Did you mean 'width'?" in faults[0]


def test_params_itself_has_the_last_word() -> None:
    assert checked(Params, {"width": 65}) == ({"width": 65}, ["--params: width: at most 64"])
    assert checked(Params, {"width": 64}) == ({"width": 64}, [])
