"""Values of hyperparameters and the types of the fields of Params."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Literal, Optional

import numpy as np
import pytest
import torch

from sweeps.common.param_types import (
    build_params,
    checked,
    fixed_defaults,
    given,
    held,
    hints_of,
    nested,
    type_fault,
    typed,
)
from sweeps.space.domain import of_choices


class Activation(Enum):
    relu = "ReLU"
    gelu = "GELU"


@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 0.1
    width: int = 8
    optimizer: Literal["sgd", "adam"] = "sgd"
    warmup: int | Literal["auto"] = "auto"
    nesterov: bool = False
    clip: float | None = None
    layers: tuple[int, ...] = (8,)
    activation: Activation = Activation.relu

    def __post_init__(self) -> None:
        if self.width > 64:
            raise ValueError("width: at most 64")


@dataclass(frozen=True)
class Optimizer:
    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.99)


@dataclass
class Inherited:
    seed_of_split: int = 0


@dataclass
class OfAllTypes(Inherited):
    shared: ClassVar[int] = 3
    given_to_init: InitVar[int] = 2
    width: int = 8
    rate: float = np.float64(0.25)
    momentum: np.float64 = np.float64(0.5)  # noqa: RUF009
    name: Literal["sgd", 2, None] = "sgd"
    activation: Activation = Activation.gelu
    data: Path = Path("data/raw")
    limit: Optional[int] = 3  # noqa: UP045
    either: int | list[int] = 1
    layers: tuple = (8, (4, 4))  # type: ignore[type-arg]
    widths: list[float] = field(default_factory=lambda: [1.0])
    options: dict[str, int] = field(default_factory=lambda: {"a": 1})
    optimizer: Optimizer = Optimizer()
    anything: Any = "x"
    weights: np.ndarray = field(default_factory=lambda: np.ones(3))  # type: ignore[type-arg]
    dtype: torch.dtype = torch.float32
    function: Callable[[float], float] = abs
    choices: set[int] = field(default_factory=lambda: {1})
    computed: int = None  # type: ignore[assignment]
    made: int = field(init=False, default=0)
    _: KW_ONLY
    last: bool = True

    def __post_init__(self, given_to_init: int) -> None:
        self.computed = self.computed or self.width * given_to_init


class TooLarge(Exception): ...


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("lr", 1, ""),
        ("lr", True, "must be a number"),
        ("width", 1.0, "must be a whole number"),
        ("width", None, "must be a whole number"),
        ("warmup", 100, ""),
        ("warmup", None, "must be a whole number or one of auto."),
        ("clip", None, ""),
        ("clip", "none", "must be a number or null"),
        ("clip", "off", "must be a number or null"),
        ("layers", [8, "x"], "x: must be a whole number"),
        ("layers", 8, "must be a list such as [1, 2] (tuple[int, ...])"),
        ("activation", "rel", "must be one of relu, gelu. Did you mean 'relu'?"),
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


class Norm(Enum):
    none = "off"
    batch = "batch_norm"


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("none", str | None),
        ("None", str | Literal["auto"] | None),
        (["batch", "none"], list[str | None]),
        ({"norm": "none"}, dict[str, str | None]),
    ],
)
def test_a_user_who_means_none_does_not_give_a_text_and_a_record_may_hold_it(value: Any, hint: Any) -> None:
    params_class = dataclasses.make_dataclass("Chosen", [("norm", hint)])
    (fault,) = given(params_class, {"norm": value})[1]
    assert fault.endswith(": must be null for None; to choose this text, give the field a Literal type")
    with pytest.raises(ValueError, match="must be null for None"):
        of_choices([value], hint)
    assert build_params(params_class, {"norm": held(value, hint)}).norm == value


@pytest.mark.parametrize(
    ("value", "hint", "made"),
    [
        ("none", Any | None, "none"),
        ("none", Literal["none"] | None, "none"),
        ("none", Norm | None, Norm.none),
        (Norm.none, Norm | None, Norm.none),
        (["none"], list[Norm | None], [Norm.none]),
    ],
)
def test_the_text_none_is_given_where_a_type_lists_it_or_the_user_can_give_no_other(
    value: Any, hint: Any, made: Any
) -> None:
    params_class = dataclasses.make_dataclass("Chosen", [("norm", hint, None)])
    values, faults = given(params_class, {"norm": value})
    assert (build_params(params_class, values).norm, faults) == (made, [])
    assert of_choices([value], hint).choices == [values["norm"]]


@pytest.mark.parametrize(
    ("value", "hint", "fault"),
    [
        ({"layers": [1, "x"]}, dict[str, list[int]], '[1, "x"]: x: must be a whole number'),
        ({"lr": "high"}, Optimizer, "high: must be a number"),
        ({"rl": 0.1}, Optimizer, "must be names and values such as {a: 1}"),
        ([0.5], int | list[int], "0.5: must be a whole number"),
    ],
)
def test_the_element_that_does_not_fit_is_named(value: Any, hint: Any, fault: str) -> None:
    assert type_fault(value, hint) == fault


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, float, 1.0),
        (1, int, 1),
        (np.float32(0.5), float, 0.5),
        (np.int64(3), float, 3.0),
        (np.bool_(True), bool, True),
        (np.str_("sgd"), str, "sgd"),
        (1, int | float, 1),
        (None, str | None, None),
        ((8, 8), tuple[int, ...], "[8, 8]"),
        ([1, [2, None]], list, "[1, [2, null]]"),
        ({"a": (1,)}, dict[str, tuple[int, ...]], '{"a": [1]}'),
        (Activation.gelu, Activation, "gelu"),
        ("GELU", Activation, "gelu"),
        (Path("data/raw"), Path, "data/raw"),
        (Optimizer(lr=1), Optimizer, '{"lr": 1.0, "betas": [0.9, 0.99]}'),
    ],
)
def test_a_sweep_holds_a_plain_value_and_params_gets_that_of_its_type(
    value: Any, hint: Any, expected: Any
) -> None:
    made = held(value, hint)
    assert (made, type(made)) == (expected, type(expected))
    assert held(typed(made, hint), hint) == made
    assert type(typed(made, hint)) is type(typed(value, hint))


def test_the_defaults_of_all_types_are_held_or_stay_in_the_code() -> None:
    fixed = fixed_defaults(OfAllTypes)
    in_code = {"weights", "dtype", "function", "choices", "computed"}
    assert hints_of(OfAllTypes).keys() - fixed.keys() == {*in_code, "given_to_init"}
    built, default = build_params(OfAllTypes, fixed), OfAllTypes()
    for name in hints_of(OfAllTypes).keys() - {"weights"}:
        assert getattr(built, name) == getattr(default, name), name
        assert name == "rate" or type(getattr(built, name)) is type(getattr(default, name)), name
    assert build_params(OfAllTypes, {**fixed, "width": 4, "given_to_init": 3}).computed == 12


@pytest.mark.parametrize("name", ["weights", "dtype", "function"])
def test_what_only_the_code_can_give_is_refused_with_what_to_do(name: str) -> None:
    fault = type_fault(getattr(OfAllTypes(), name), hints_of(OfAllTypes)[name])
    assert "Choose it by a name, which is text, and look that name up in build_model" in fault


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("too large"), "too large"),
        (AssertionError("too large"), "too large"),
        (AssertionError(), "AssertionError"),
        (KeyError("swish"), "KeyError: 'swish'"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
        (SystemExit(3), "SystemExit: 3"),
        (TooLarge("lr"), "TooLarge: lr"),
    ],
)
def test_whatever_params_raises_is_the_users_message(error: BaseException, said: str) -> None:
    @dataclass
    class Refusing:
        lr: float = 0.1

        def __post_init__(self) -> None:
            raise error

    assert checked(Refusing, {"lr": 0.5})[1] == [f"--params lr=0.5: {said}"]
    assert checked(Refusing, {})[1] == [f"Params refuses its defaults: {said}"]


def test_what_fits_is_kept_and_every_fault_is_told() -> None:
    values, faults = given(Params, {"lr": 1, "widht": 4, "nesterov": "yes"})
    assert (values, type(values["lr"])) == ({"lr": 1.0}, float)
    assert [fault.split(":")[0] for fault in faults] == ["--params widht", "--params nesterov=yes"]
    assert "Did you mean 'width'?" in faults[0]


def test_params_itself_has_the_last_word() -> None:
    assert checked(Params, {"width": 65}) == ({"width": 65}, ["--params: width: at most 64"])
    assert checked(Params, {"width": 64}) == ({"width": 64}, [])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"a.b": 1, "a.c.d": 2, "e": 3}, {"a": {"b": 1, "c": {"d": 2}}, "e": 3}),
        ({"model": "cnn", "model.lr": 0.1}, {"model": "cnn", "model.lr": 0.1}),
        (
            {"model.net.lr": 0.1, "model": "cnn", "data.n": 3},
            {"model.net.lr": 0.1, "model": "cnn", "data": {"n": 3}},
        ),
    ],
)
def test_one_inside_of_another_that_is_a_value_itself_stands_beside_it(
    values: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert nested(values, ".") == expected
