"""Check values of hyperparameters against the types of the fields of Params."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

from sweeps.common.yaml_values import ParamValue, nearest

WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
"""What a value of a type is, for messages."""


def hints_of(params_class: Any) -> dict[str, Any]:
    """Field to its type."""
    return typing.get_type_hints(params_class)


def cast(value: Any, hint: Any) -> Any:
    """A plain Python value of the field's type: 1 becomes 1.0 for a float."""
    value = value.item() if hasattr(value, "item") else value  # NumPy's numbers
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if is_whole and float in plain_types(hint) else value


def unknown(name: str, hints: Mapping[str, Any]) -> str:
    """The error for a name that is no hyperparameter, with the nearest one."""
    return f"no such hyperparameter of Params.{nearest(name, hints)} Hyperparameters: {', '.join(hints)}"


def given(params_class: Any, params: Mapping[str, Any]) -> tuple[dict[str, ParamValue], list[str]]:
    """The hyperparameters of --params that fit, in their types, and the faults of the others."""
    hints, values, faults = hints_of(params_class), {}, []
    for name, value in params.items():
        if name not in hints:
            faults.append(f"--params {name}: {unknown(name, hints).replace(' of Params', '')}")
        elif fault := type_fault(value, hints[name]):
            faults.append(f"--params {name}={value}: {fault}")
        else:
            values[name] = cast(value, hints[name])
    return values, faults


def checked(params_class: Any, params: Mapping[str, Any]) -> tuple[dict[str, ParamValue], list[str]]:
    """The same, with the checks of Params itself, of all hyperparameters together."""
    values, faults = given(params_class, params)
    try:
        params_class(**values)
    except Exception as error:  # the model's own check
        faults.append(f"--params: {error}")
    return values, faults


def type_fault(value: Any, hint: Any) -> str:
    """Why a value does not fit a field's type; "" when it does."""
    if not isinstance(value, bool | int | float | str):
        return f"a hyperparameter's value is a number, a string, true or false, not {type(value).__name__}"
    choices = literals(hint)
    if value in choices:
        return ""
    if choices:
        return f"must be one of {', '.join(map(str, choices))}.{nearest(str(value), map(str, choices))}"
    wanted = plain_types(hint)
    fits = type(value) in wanted or (type(value) is int and float in wanted) or Any in wanted
    return "" if fits else f"must be {' or '.join(WORDS.get(each, str(each)) for each in members(hint))}"


def members(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the only one."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def literals(hint: Any) -> list[Any]:
    """The values that a field's Literal lists."""
    of = (member for member in members(hint) if typing.get_origin(member) is Literal)
    return [value for member in of for value in typing.get_args(member)]


def plain_types(hint: Any) -> set[Any]:
    """The types of a field, without its literals."""
    return {member for member in members(hint) if typing.get_origin(member) is not Literal}


def names_of(hint: Any) -> str:
    """The types of a field, for a message."""
    return " or ".join(getattr(member, "__name__", str(member)) for member in members(hint))
