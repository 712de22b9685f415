"""`--ranges`: other ranges or choices in place of those of a space.

A range keeps the scale, the steps and the type of the hyperparameter's domain; a grid of numbers becomes a
range on the scale of the grid.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from sweeps.common.errors import UserError
from sweeps.common.yaml_values import ParamValue, hyperparameter, nearest
from sweeps.space.domain import Domain, Form, of_choices, of_range
from sweeps.space.numeric_range import Range, range_of_grid

BETWEEN = ".."


def applied(
    space: Mapping[str, Domain], ranges: Mapping[str, Any], takes: frozenset[Form]
) -> tuple[dict[str, Domain], dict[str, ParamValue]]:
    """The space with ranges in place of its own, and the hyperparameters that they fix at one value.

    Args:
        space: hyperparameter to its domain.
        ranges: hyperparameter to LOW..HIGH, a list of choices, or one value.
        takes: forms of domain that the searcher can take.

    Raises:
        UserError: all ranges that do not fit, one a line.
    """
    domains, fixed, faults = dict(space), {}, []
    for name, given in ranges.items():
        if name not in space:
            faults.append(
                f"--ranges {name}: not in the space.{nearest(name, space)} "
                f"Hyperparameters: {', '.join(space)}; the value of a fixed one is given by --params"
            )
            continue
        try:
            found = _one(space[name], given, takes)
        except ValueError as error:
            shown = ",".join(map(str, given)) if isinstance(given, list) else given
            faults.append(f"--ranges {name}={shown}: {error}")
            continue
        if isinstance(found, Domain):
            domains[name] = found
        else:
            fixed[name] = found
            del domains[name]
    if not domains and not faults:
        faults.append("--ranges: every hyperparameter is fixed; give at least one a range")
    if faults:
        raise UserError("\n".join(faults))
    return domains, fixed


def _one(domain: Domain, given: Any, takes: frozenset[Form]) -> Domain | ParamValue:
    """A domain, or the one value that is left of it; ValueError where the range does not fit."""
    if domain.distribution is None:
        raise ValueError(f"{domain.form_name} has no range to replace")
    choices = domain.choices
    if isinstance(given, str) and BETWEEN in given and (choices is None or given not in choices):
        return _between(domain, given)
    listed: list[Any] = given if isinstance(given, list) else [given]
    if isinstance(given, str):
        listed = [hyperparameter("--ranges", part) for part in given.split(",")]
    if choices is not None:
        kept = [_among(choices, value) for value in listed]
        if len(kept) == 1:
            return kept[0]
        return of_choices(kept, is_grid=domain.form == "grid_search" and "grid_search" in takes)
    if len(listed) == 1 and isinstance(listed[0], int | float):
        return _of_type(listed[0], domain.range is not None and domain.range.is_whole)
    raise ValueError("must be LOW..HIGH, or one value: the space has a range for it")


def _among(choices: Sequence[Any], value: Any) -> ParamValue:
    found: list[ParamValue] = [choice for choice in choices if choice == value or str(choice) == str(value)]
    if not found:
        raise ValueError(f"{value} is not one of its choices: {', '.join(map(str, choices))}")
    return found[0]


def _of_type(value: float, is_whole: bool) -> ParamValue:
    if not is_whole:
        return float(value)
    if value != int(value):
        raise ValueError("must be a whole number, as in the space")
    return int(value)


def _between(domain: Domain, text: str) -> Domain | ParamValue:
    ends = [hyperparameter("--ranges", part.strip()) for part in text.split(BETWEEN, 1)]
    numbers = [end for end in ends if isinstance(end, int | float) and not isinstance(end, bool)]
    if len(numbers) < 2:
        raise ValueError("must be LOW..HIGH, two numbers")
    low, high = numbers
    if low > high:
        raise ValueError("bounds reversed: LOW must be at most HIGH")
    asked = domain.range or range_of_grid(choices := domain.choices or [])
    if asked is None:
        raise ValueError(f"must be choices, not a range: give some of {', '.join(map(str, choices))}")
    if asked.is_log and low <= 0:
        raise ValueError("log scale: LOW must be above 0")
    if (step := asked.step) is not None:
        off = [v for v in (low, high) if not math.isclose(v / step, round(v / step), abs_tol=1e-9)]
        if off:
            must = "whole numbers" if step == 1 else f"multiples of {step:g}, the space's step"
            raise ValueError(f"must be {must}; wrong: {', '.join(f'{end:g}' for end in off)}")
    if low == high:
        return _of_type(low, asked.is_whole)
    return of_range(dataclasses.replace(asked, low=low, high=high))


def text_of(found: Range) -> str:
    """A range as a value of --ranges."""
    return f"{found.low!r}{BETWEEN}{found.high!r}"
