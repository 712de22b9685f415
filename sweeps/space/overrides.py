"""`--ranges`, and `space:` of a YAML file: ranges and choices as text, in place of a space's own or added.

    lr=1e-4..1e-1:log   rows=8..64:8   steps=1..1000:log:10   act=relu,gelu   bias=true,false   momentum=0.9

A range without a scale keeps the scale, the steps and the type of the space's own domain. A grid of numbers
becomes a range on the scale of the grid. A hyperparameter that the space lacks has the type of Params.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import yaml

from sweeps.common.errors import refuse
from sweeps.common.param_types import are_same, held, plain_types, shown, shown_range, type_fault, unknown
from sweeps.common.yaml_values import ParamValue, hyperparameter, is_number, load_yaml, nearest
from sweeps.space.domain import Domain, Form, of_choices, of_range
from sweeps.space.numeric_range import Range, clean, in_full, range_of_grid

BETWEEN = ".."
LOG, LINEAR = "log", "linear"
FORMS = "LOW..HIGH, LOW..HIGH:log, LOW..HIGH:STEP or A,B,C"


def applied(
    space: Mapping[str, Domain], ranges: Mapping[str, Any], takes: frozenset[Form], hints: Mapping[str, Any]
) -> tuple[dict[str, Domain], dict[str, ParamValue]]:
    """The space with ranges in place of its own, and the hyperparameters that they fix at one value.

    Args:
        ranges: hyperparameter to a range, choices (a text or a list), or one value.

    Raises:
        UserError: all ranges that do not fit, one a line.
    """
    domains, fixed, faults = dict(space), {}, []
    for name, given in ranges.items():
        if name not in hints:
            faults.append(f"--ranges {name}: {unknown(name, hints).replace(' of Params', '')}")
            continue
        try:
            found = _one(space.get(name), hints[name], given, takes)
        except ValueError as error:
            faults.append(f"--ranges {name}={shown_range(given)}: {'; '.join(str(error).splitlines())}")
            continue
        if isinstance(found, Domain):
            domains[name] = found
        else:
            fixed[name] = found
            domains.pop(name, None)
    if not domains and not faults:
        faults.append(f"--ranges: every hyperparameter is fixed; give at least one a range: {FORMS}")
    refuse(faults)
    return domains, fixed


def has_three_dots(given: object) -> bool:
    """Whether it is a range such as 0...1, which would end at .1."""
    return isinstance(given, str) and f"{BETWEEN}." in given and _parts(given) is not None


def unmarked(domain: Domain | None, hint: Any, low: float, high: float) -> Range:
    """The range that `LOW..HIGH` without a scale and steps means.

    Args:
        domain: of the space; None where the space lacks the hyperparameter.
        low, high: as they were given; both whole numbers mean a range of whole numbers, where Params takes
            these and fractions.
    """
    own = None if domain is None else domain.range or range_of_grid(domain.choices or [])
    if own is not None:
        return dataclasses.replace(own, low=low, high=high)
    return _of_hint(hint, low, high)


def text_of(found: Range, own: Range) -> str:
    """A range as a value of --ranges; `own` is what it would be without a scale and steps."""
    text = f"{found.low!r}{BETWEEN}{found.high!r}"
    if (found.is_log, found.step) == (own.is_log, own.step):
        return text
    marks = [LOG] if found.is_log else []
    if found.step is not None and not (found.is_whole and found.step == 1):
        marks.append(f"{found.step!r}")
    return ":".join([text, *(marks or [LINEAR])])


def _one(domain: Domain | None, hint: Any, given: Any, takes: frozenset[Form]) -> Domain | ParamValue:
    """A domain, or the one value that is left of it; ValueError where the range does not fit."""
    if domain is not None and not domain.is_of_optuna:
        raise ValueError(f"{domain.form_name} has no range to replace")
    choices = None if domain is None else domain.choices
    if isinstance(given, str) and BETWEEN in given and given not in (choices or ()):
        if (parts := _parts(given)) is not None:
            return _between(domain, hint, *parts)
        if {int, float, Any} & plain_types(hint):  # else two dots may be part of a word, such as a path
            raise ValueError("must be two numbers, LOW..HIGH, with :log or :STEP behind them if needed")
    listed: list[Any] = given if isinstance(given, list) else [given]
    if isinstance(given, str):
        listed = _listed(given)
    kept = [_among(choices or [], value, hint) for value in listed]
    if len(kept) == 1:
        return _value(domain, hint, kept[0])
    is_grid = domain is not None and domain.form == "grid_search" and "grid_search" in takes
    return of_choices(kept, hint, is_grid)


def _listed(text: str) -> list[Any]:
    """The values of `relu,gelu` or of `[8, 8],[4]`."""
    with suppress(yaml.YAMLError):
        if "[" in text or "{" in text:
            return list(load_yaml(f"[{text}]"))
    return [hyperparameter(part.strip()) for part in text.split(",")]


def _among(choices: Sequence[ParamValue], value: Any, hint: Any) -> ParamValue:
    """A value as the space spells it. A number may be another one than the space's: Params checks it."""
    if isinstance(value, str) and not type_fault(value, hint):
        value = held(value, hint)
    listed = list(map(shown, choices))
    for choice, text in zip(choices, listed, strict=True):
        if are_same(choice, value) or text == shown(value):
            return choice
    if isinstance(value, str) and any(isinstance(choice, str) for choice in choices):
        raise ValueError(f"{value} is not one of its choices: {', '.join(listed)}.{nearest(value, listed)}")
    kept: ParamValue = value
    return kept


def _value(domain: Domain | None, hint: Any, value: ParamValue) -> ParamValue:
    """The one value at which a hyperparameter is fixed."""
    if domain is not None and domain.range is not None:
        return _of_type(value, domain.range.is_whole)
    if isinstance(value, dict) and (fault := type_fault(value, hint)):
        raise ValueError(f"{fault}; a range is given as {FORMS}")
    return held(value, hint)


def _of_type(value: Any, is_whole: bool) -> ParamValue:
    if not is_number(value):
        raise ValueError(f"must be {FORMS}, or one number: the space has a range for it")
    if not is_whole:
        return float(value)
    if value != int(value):
        raise ValueError("must be a whole number, as in the space")
    return int(value)


def _parts(text: str) -> tuple[float, float, list[str]] | None:
    """Both ends of a range, and the marks behind them; None where it is none."""
    low_text, _, rest = text.replace(" ", "").partition(BETWEEN)
    high_text, *marks = rest.split(":")
    low, high = _number(low_text), _number(high_text)
    return None if low is None or high is None else (low, high, marks)


def _number(text: str) -> float | None:
    found = hyperparameter(text)
    return found if is_number(found) else None


def _between(
    domain: Domain | None, hint: Any, low: float, high: float, marks: Sequence[str]
) -> Domain | ParamValue:
    if low > high:
        raise ValueError("bounds reversed: LOW must be at most HIGH")
    asked = _marked(hint, low, high, marks) if marks else unmarked(domain, hint, low, high)
    if asked.is_log and low <= 0:
        raise ValueError("log scale: LOW must be above 0")
    if (step := asked.step) is not None:
        _refuse_between_steps(asked, step, "" if marks else ", the space's step")
    return _of_type(low, asked.is_whole) if low == high else of_range(asked)


def _of_hint(hint: Any, *numbers: float) -> Range:
    """A linear range between the first two numbers; of whole numbers by the type in Params, or where Params
    takes both, if all numbers are whole."""
    wanted = plain_types(hint)
    is_whole = int in wanted and float not in wanted
    if Any in wanted or {int, float} <= wanted:
        is_whole = all(isinstance(number, int) for number in numbers)
    low, high = numbers[:2]
    return Range(low, high, step=1 if is_whole else None, is_whole=is_whole)


def _marked(hint: Any, low: float, high: float, marks: Sequence[str]) -> Range:
    """A range with a scale and steps."""
    steps: list[float] = []
    for mark in marks:
        if (step := _number(mark)) is not None:
            steps.append(step)
        elif mark not in (LOG, LINEAR):
            raise ValueError(
                f":{mark} is no scale.{nearest(mark, (LOG, LINEAR))} Give :log, :linear or :STEP"
            )
    asked = dataclasses.replace(_of_hint(hint, low, high, *steps), is_log=LOG in marks)
    for step in steps:
        if step <= 0:
            raise ValueError(f"STEP {step}: must be above 0")
        if asked.is_whole and step != int(step):
            raise ValueError(f"STEP {step}: must be a whole number, as the hyperparameter is")
        asked = dataclasses.replace(asked, step=int(step) if asked.is_whole else float(step))
    return asked


def _refuse_between_steps(asked: Range, step: float, whose: str) -> None:
    """Refuse ends that are no steps: values are multiples of the step."""
    at = {end: round(end / step) for end in (asked.low, asked.high)}
    off = [end for end, steps in at.items() if not math.isclose(end / step, steps, abs_tol=1e-9)]
    if off:
        must = "whole numbers" if step == 1 else f"multiples of {in_full(step)}{whose}"
        found = ", ".join(in_full(clean(at[end] * step, step)) for end in off)
        near = "" if step == 1 else f"; the nearest is {found}"
        raise ValueError(f"must be {must}; wrong: {', '.join(map(in_full, off))}{near}")
