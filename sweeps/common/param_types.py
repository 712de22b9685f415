"""Values of hyperparameters: as a sweep holds them, and in the types of the fields of Params.

A sweep holds numbers, text, true, false and null. Any other value is text there: a member of an Enum by its
name, a Path, and as JSON a list, a tuple, a dict or a dataclass. The type of the field tells them apart.
"""

from __future__ import annotations

import dataclasses
import json
import numbers
import types
import typing
from collections import abc
from collections.abc import Collection, Mapping
from enum import Enum
from functools import cache
from itertools import accumulate
from pathlib import PurePath
from types import NoneType
from typing import Any, Literal

from sweeps.common.errors import reason_of
from sweeps.common.yaml_values import ParamValue, nearest

WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    NoneType: "null",
    tuple: "a list such as [1, 2]",
    list: "a list such as [1, 2]",
    dict: "names and values such as {a: 1}",
}
"""What a value of a type is, for messages."""
CONTAINERS: dict[Any, Any] = {
    **dict.fromkeys((tuple, abc.Sequence, abc.Collection, abc.Iterable), tuple),
    **dict.fromkeys((list, abc.MutableSequence), list),
    **dict.fromkeys((dict, abc.Mapping, abc.MutableMapping), dict),
}
"""Type of a field to that of the value that it gets."""
BY_NAME = "Choose it by a name, which is text, and look that name up in build_model"
TEXTS_OF_NONE = ("none", "None")


class WrongElementError(ValueError):
    """An element of a list or a dict does not fit, and why."""


@cache
def hints_of(params_class: Any) -> dict[str, Any]:
    """Field to its type, of those that can be given. A field whose default is None takes None, too."""
    given = {field.name: field for field in dataclasses.fields(params_class) if field.init}
    found = {}
    for name, hint in typing.get_type_hints(params_class).items():
        if isinstance(hint, dataclasses.InitVar):
            found[name] = hint.type
        elif name in given:
            found[name] = hint | None if given[name].default is None else hint
    return found


def defaults_of(params_class: Any) -> dict[str, Any]:
    """Field to its default, before a `__post_init__` changes any."""
    return {
        field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        for field in dataclasses.fields(params_class)
        if field.init
    }


def fixed_defaults(params_class: Any) -> dict[str, ParamValue]:
    """The defaults that a sweep can hold. Others stay in the code, as does None, from which `__post_init__`
    may compute another value."""
    hints, found = hints_of(params_class), dict[str, ParamValue]()
    for name, default in defaults_of(params_class).items():
        if default is not None and not type_fault(default, hints[name]):
            value = held(default, hints[name])
            if typed(value, hints[name]) == default:  # a list in a field of tuples is no tuple
                found[name] = value
    return found


def unfit_defaults(params_class: Any, names: Collection[str]) -> dict[str, str]:
    """Of the hyperparameters whose default is a number or text, and does not fit, what is wrong with it."""
    hints, found = hints_of(params_class), {}
    for name, default in defaults_of(params_class).items():
        is_held = name in names and isinstance(default, bool | int | float | str)
        if is_held and (fault := type_fault(default, hints[name])):
            found[name] = f"the default {default!r} of {name} {fault}"
    return found


def plain_defaults(params_class: Any) -> dict[str, ParamValue]:
    """The same with None, which is a default as any other where it is compared with swept values."""
    nones = {name: None for name, default in defaults_of(params_class).items() if default is None}
    return {**fixed_defaults(params_class), **nones}


def build_params(params_class: Any, values: Mapping[str, ParamValue]) -> Any:
    """Params of the values that a sweep holds."""
    hints = hints_of(params_class)
    return params_class(**{name: typed(v, hints[name]) if name in hints else v for name, v in values.items()})


def refusal(params_class: Any, values: Mapping[str, ParamValue]) -> str:
    """Why Params refuses these values; "" when it accepts them."""
    try:
        build_params(params_class, values)
    except (Exception, SystemExit) as error:  # of the user's `__post_init__`
        is_said = isinstance(error, ValueError | TypeError | AssertionError) and str(error)
        return str(error) if is_said else reason_of(error)
    return ""


def unknown(name: str, hints: Mapping[str, Any]) -> str:
    """The error for a name that is no hyperparameter, with the nearest one."""
    return f"no such hyperparameter of Params.{nearest(name, hints)} Hyperparameters: {', '.join(hints)}"


def given(params_class: Any, params: Mapping[str, Any]) -> tuple[dict[str, ParamValue], list[str]]:
    """The hyperparameters of --params that fit, as a sweep holds them, and the faults of the others."""
    hints, values, faults = hints_of(params_class), dict[str, ParamValue](), []
    for name, value in params.items():
        if name not in hints:
            faults.append(f"--params {name}: {unknown(name, hints).replace(' of Params', '')}")
        elif fault := given_fault(value, hints[name]):
            faults.append(f"--params {name}={shown(value)}: {fault}")
        else:
            values[name] = held(value, hints[name])
    return values, faults


def checked(params_class: Any, params: Mapping[str, Any]) -> tuple[dict[str, ParamValue], list[str]]:
    """The same, with the checks of Params itself, of all hyperparameters together."""
    values, faults = given(params_class, params)
    if fault := refusal(params_class, values):
        faults.append(refused(values, fault))
    return values, faults


def refused(values: Mapping[str, ParamValue], fault: str) -> str:
    """The error for fixed values that Params refuses; it names them where the fault does not."""
    pairs = "".join(f" {name}={shown(value)}" for name, value in values.items())
    is_named = any(fault.startswith(name) for name in values)
    return (
        f"--params{'' if is_named else pairs}: {fault}" if values else f"Params refuses its defaults: {fault}"
    )


def held(value: Any, hint: Any) -> ParamValue:
    """A value of a field as a sweep holds it.

    Raises:
        ValueError: it does not fit the field, and why.
    """
    found: Any = plain(typed(value, hint))
    return json.dumps(found, ensure_ascii=False) if isinstance(found, list | dict) else found


def readable(params_class: Any, values: Mapping[str, ParamValue]) -> dict[str, Any]:
    """The values for a file that people read: lists and dicts in place of their JSON."""
    hints = hints_of(params_class)
    return {name: plain(typed(v, hints[name])) if name in hints else v for name, v in values.items()}


def shown(value: Any) -> str:
    """A value as it is typed."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return "null" if value is None else str(value)


def shown_range(given: Any) -> str:
    """A range of --ranges as it is typed, with commas between choices."""
    return ",".join(map(shown, given)) if isinstance(given, list) else shown(given)


def are_same(first: Any, second: Any) -> bool:
    """Whether two values are equal, of which true is not 1."""
    return isinstance(first, bool) is isinstance(second, bool) and bool(first == second)


def typed(value: Any, hint: Any) -> Any:
    """A value in the type of a field.

    Args:
        value: of Python, of YAML, or as a sweep holds it.
        hint: the type.

    Raises:
        ValueError: it does not fit, and why.
    """
    found, each_of, wrong = plain(value), members(hint), ""
    marked = [each for each in each_of if _choices(each) or _container(each)]
    exact = [each for each in each_of if each is type(found) and each is not str]
    for member in dict.fromkeys([*marked, *exact, *each_of]):
        try:
            return _as_member(found, member)
        except WrongElementError as error:
            wrong = str(error)
        except (ValueError, TypeError):
            continue
    raise ValueError(wrong or requirement(found, hint))


def type_fault(value: Any, hint: Any) -> str:
    """Why a value does not fit a field's type; "" when it does."""
    try:
        typed(value, hint)
    except ValueError as error:
        return str(error)
    return ""


def given_fault(value: Any, hint: Any) -> str:
    """The same of a value that a user gives. A record may hold the text none, where None can be meant."""
    if not (fault := type_fault(value, hint)) and _may_mean_none(plain(value), hint):
        return "must be null for None; to choose this text, give the field a Literal type"
    return fault


def _may_mean_none(found: Any, hint: Any) -> bool:
    """Whether a plain value, or an element of it, is the text none in a field that takes None, and does not
    list this text."""
    each_of = members(hint)
    if isinstance(found, list | dict):
        elements = found.values() if isinstance(found, dict) else found
        hints = [of for member in each_of for of in typing.get_args(member)]
        return any(_may_mean_none(element, of) for element in elements for of in hints)
    takes_it = {Any, object} & {*each_of} or found in [name for of in each_of for name, _ in _choices(of)]
    return found in TEXTS_OF_NONE and NoneType in each_of and not takes_it


def plain(value: Any) -> Any:
    """A value as YAML has it."""
    if isinstance(value, Enum):
        return value.name
    if getattr(value, "shape", None) == ():  # NumPy's numbers
        value = value.item()
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if value is None or isinstance(value, PurePath):
        return None if value is None else str(value)
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {name: getattr(value, name) for name in hints_of(type(value))}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain(each) for key, each in value.items()}
    what = "a dict whose keys are no text" if isinstance(value, Mapping) else type(value).__name__
    kinds = "a number, text, true, false or null, or a list or a dict of these"
    raise ValueError(f"a hyperparameter's value is {kinds}, not {what}. {BY_NAME}")


def _as_member(found: Any, member: Any) -> Any:
    """A plain value in one type; ValueError or TypeError where it does not fit."""
    if isinstance(member, typing.NewType):
        return typed(found, member.__supertype__)
    for name, choice in _choices(member):
        if name == found and type(name) is type(found):
            return choice
    if container := _container(member):
        return _filled(container, json.loads(found) if isinstance(found, str) else found, member)
    if _choices(member) or isinstance(found, list | dict):
        raise ValueError
    if member in (Any, object, type(found)):
        return found
    if isinstance(found, str) and issubclass(member, str | PurePath):
        return member(found)
    is_number = type(found) is int or (type(found) is float and not issubclass(member, numbers.Integral))
    if is_number and issubclass(member, numbers.Real) and member is not bool:
        return member(found)
    raise ValueError


def _choices(member: Any) -> list[tuple[Any, Any]]:
    """The values that a Literal or an Enum lists, each behind what it is in YAML; of an Enum by name, too."""
    if typing.get_origin(member) is Literal:
        return [(plain(each), each) for each in typing.get_args(member)]
    if isinstance(member, type) and issubclass(member, Enum):
        return [*((each.name, each) for each in member), *((each.value, each) for each in member)]
    return []


def _container(member: Any) -> Any:
    """What a field of lists or dicts gets: tuple, list, dict, or its dataclass; None of another field."""
    kind = typing.get_origin(member) or member
    return kind if dataclasses.is_dataclass(kind) else CONTAINERS.get(kind)


def _filled(container: Any, content: Any, member: Any) -> Any:
    """A list or a dict in the type of a field, with its elements in theirs."""
    if not isinstance(content, list if container in (tuple, list) else dict):
        raise TypeError
    of = typing.get_args(member)
    if isinstance(content, dict):
        if dataclasses.is_dataclass(container):
            made: Any = container
            hints = hints_of(made)
            return made(**{name: _element(each, hints.get(name, Any)) for name, each in content.items()})
        return {typed(key, of[0]): _element(each, of[1]) for key, each in content.items()} if of else content
    if not of:
        return _as_tuples(content) if container is tuple else content
    if typing.get_origin(member) is tuple and of[-1] is not ...:
        return tuple(_element(each, hint) for each, hint in zip(content, of, strict=True))
    return container(_element(each, of[0]) for each in content)


def _element(value: Any, hint: Any) -> Any:
    try:
        return value if hint is Any else typed(value, hint)
    except ValueError as error:
        raise WrongElementError(f"{shown(value)}: {error}") from None


def _as_tuples(content: Any) -> Any:
    return tuple(map(_as_tuples, content)) if isinstance(content, list) else content


def requirement(found: Any, hint: Any) -> str:
    """What a field takes."""
    each_of = members(hint)
    listed = [plain(choice) for member in each_of for _, choice in _choices(member)]
    names = list(dict.fromkeys(map(str, listed)))
    words = [_in_words(member) for member in each_of if not _choices(member)]
    if names:
        words.append(f"one of {', '.join(names)}.{nearest(str(found), names)}")
    return f"must be {' or '.join(dict.fromkeys(words))}"


def members(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the only one."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def literals(hint: Any) -> list[Any]:
    """The values that a field's Literal lists."""
    of = (member for member in members(hint) if typing.get_origin(member) is Literal)
    return [value for member in of for value in typing.get_args(member)]


def plain_types(hint: Any) -> set[Any]:
    """The types of a field, without its literals, those of NumPy's numbers as Python's."""
    return {_kind(member) for member in members(hint) if typing.get_origin(member) is not Literal}


def _kind(member: Any) -> Any:
    """int or float of any type of numbers, tuple, list or dict of a container; another type itself."""
    if isinstance(member, typing.NewType):
        return _kind(member.__supertype__)
    if container := _container(member):
        return dict if dataclasses.is_dataclass(container) else container
    if isinstance(member, type) and issubclass(member, numbers.Real) and member is not bool:
        return int if issubclass(member, numbers.Integral) else float
    return Any if member is object else member


def _in_words(member: Any) -> str:
    """What a value of one type is."""
    kind, name = _kind(member), names_of(member)
    if kind is Any:
        return "a number, text, true, false or null (for a list or a dict, its type must say so)"
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return "a path"
    if kind not in WORDS:
        return f"{name}, which only the code can give. {BY_NAME}"
    return WORDS[kind] + (f" ({name})" if typing.get_args(member) else "")


def names_of(hint: Any) -> str:
    """The types of a field, for a message."""
    return " or ".join(
        "None" if member is NoneType else member.__name__ if type(member) is type else str(member)
        for member in members(hint)
    )


def nested(values: Mapping[str, Any], separator: str) -> dict[str, Any]:
    """Hyperparameters, with those that are parts of another one inside it: `model.lr` as `{"model": {"lr":
    0.1}}`, where the separator is a dot. Where there is a `model`, too, which holds nothing, it stays beside
    that one."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        *outer, last = name.split(separator)
        if any(each in values for each in accumulate(outer, f"{{}}{separator}{{}}".format)):
            outer, last = [], name
        inner = found
        for each in outer:
            inner = inner.setdefault(each, {})
        inner[last] = value
    return found
