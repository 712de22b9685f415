"""`--ranges`: what of a space is tried, in place of all of it.

A range keeps the scale, the steps and the type of the hyperparameter's domain; a grid of numbers becomes a range on
the scale that the grid has. Nothing else of the space changes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ray import tune
from ray.tune.search.sample import Domain, Integer

from sweeps.common.errors import UserError
from sweeps.common.yaml_values import ParamValue, hyperparameter, nearest
from sweeps.space.numeric_range import Range
from sweeps.space.tune_domains import Form, bounds, form, is_log, step_of, values_of

BETWEEN = ".."


def applied(
    space: Mapping[str, Any], ranges: Mapping[str, Any], takes: frozenset[Form]
) -> tuple[dict[str, Any], dict[str, ParamValue]]:
    """The space with ranges in place of its own, and the hyperparameters that stand still by them.

    Args:
        space: hyperparameter to its `ray.tune` domain.
        ranges: hyperparameter to LOW..HIGH, a list of choices, or one value.
        takes: what the searcher can take.

    Raises:
        UserError: all ranges that don't fit, one a line.
    """
    domains, still, faults = dict(space), {}, []
    for name, given in ranges.items():
        if name not in space:
            faults.append(
                f"--ranges {name}: not in the space.{nearest(name, space)} Hyperparameters: {', '.join(space)}; "
                "one that stands still takes its value by --params"
            )
            continue
        try:
            found = _one(space[name], given, takes)
        except ValueError as error:
            shown = given if not isinstance(given, list) else ",".join(map(str, given))
            faults.append(f"--ranges {name}={shown}: {error}")
            continue
        if isinstance(found, bool | int | float | str):
            still[name] = found
            del domains[name]
        else:
            domains[name] = found
    if not domains and not faults:
        faults.append("--ranges: no hyperparameter is left to try; give one a range")
    if faults:
        raise UserError("\n".join(faults))
    return domains, still


def _one(domain: Any, given: Any, takes: frozenset[Form]) -> Any:
    """A domain, or the one value that is left of it.

    Raises:
        ValueError: the range does not fit the domain.
    """
    if not isinstance(domain, Domain) and not _is_grid(domain):
        raise ValueError("the space has no ray.tune domain there")
    if form(domain) in ("sample_from", "normal"):
        raise ValueError(f"tune.{form(domain)} has no range to replace")
    choices = values_of(domain) if form(domain) == "grid_search" or hasattr(domain, "categories") else None
    if isinstance(given, str) and BETWEEN in given and (choices is None or given not in choices):
        return _between(domain, given, choices)
    listed = given if isinstance(given, list) else _listed(given)
    if choices is not None:
        kept = [_among(choices, value) for value in listed]
        if len(kept) == 1:
            return kept[0]
        return {"grid_search": kept} if _is_grid(domain) and "grid_search" in takes else tune.choice(kept)
    if len(listed) == 1 and isinstance(listed[0], int | float):
        return _in_kind(listed[0], domain)
    raise ValueError("must be LOW..HIGH, or one value: the space has a range there")


def _listed(given: Any) -> list[Any]:
    return (
        [hyperparameter("--ranges", part) for part in given.split(",")] if isinstance(given, str) else [given]
    )


def _among(choices: Sequence[Any], value: Any) -> Any:
    found = [choice for choice in choices if choice == value or str(choice) == str(value)]
    if not found:
        raise ValueError(f"{value} is none of its choices: {', '.join(map(str, choices))}")
    return found[0]


def _is_grid(domain: Any) -> bool:
    return form(domain) == "grid_search"


def _in_kind(value: float, domain: Any) -> ParamValue:
    if not isinstance(domain, Integer):
        return float(value)
    if value != int(value):
        raise ValueError("must be a whole number: the space has whole ones there")
    return int(value)


def _between(domain: Any, text: str, choices: Sequence[Any] | None) -> Any:
    ends = [hyperparameter("--ranges", part.strip()) for part in text.split(BETWEEN, 1)]
    numbers = [end for end in ends if isinstance(end, int | float) and not isinstance(end, bool)]
    if len(numbers) < 2:
        raise ValueError("must be LOW..HIGH, two numbers")
    low, high = numbers
    if low > high:
        raise ValueError("bounds reversed")
    if choices is not None and (old := grid_range(choices)) is None:
        raise ValueError(f"its choices stay choices: give some of {', '.join(map(str, choices))}")
    asked = old if choices is not None else range_of_domain(domain)
    assert asked is not None
    if asked.is_log and low <= 0:
        raise ValueError("log scale: LOW must be above 0")
    if asked.step is not None and (off := [end for end in (low, high) if not _is_step(end, asked.step)]):
        must = "whole numbers" if asked.step == 1 else f"multiples of {asked.step:g}, the space's step"
        raise ValueError(f"must be {must}; not so: {', '.join(f'{end:g}' for end in off)}")
    if low == high:
        return _in_kind(low, domain)
    return domain_of(dataclasses.replace(asked, low=low, high=high))


def _is_step(value: float, step: float) -> bool:
    return math.isclose(value / step, round(value / step), abs_tol=1e-9)


def range_of_domain(domain: Any) -> Range | None:
    """The range of a domain that has one."""
    if form(domain) in ("grid_search", "sample_from", "normal") or hasattr(domain, "categories"):
        return None
    low, high = bounds(domain)
    return Range(low, high, is_log(domain), step_of(domain), isinstance(domain, Integer))


def grid_range(values: Sequence[Any]) -> Range | None:
    """From the first to the last of a grid of fractions, continuous, on a log scale where its gaps grow;
    None of a grid of something else: 32, 64, 128 mean these three."""
    fractions = [value for value in values if isinstance(value, float)]
    if len(values) < 3 or not fractions or any(isinstance(v, bool | str) for v in values):
        return None
    ordered = sorted(float(value) for value in values)
    grows = ordered[0] > 0 and ordered[-1] - ordered[-2] > 1.5 * (ordered[1] - ordered[0])
    return Range(ordered[0], ordered[-1], is_log=grows)


def domain_of(asked: Range) -> Any:
    """A range as a `ray.tune` domain; Ray's upper bound of whole numbers is open, unless in steps."""
    low, high, step = asked.low, asked.high, asked.step
    if asked.is_whole:
        low, high = math.ceil(low), math.floor(high)
        if step in (None, 1):
            return (tune.lograndint if asked.is_log else tune.randint)(low, high + 1)
        return (tune.qlograndint if asked.is_log else tune.qrandint)(low, high, int(step or 1))
    if step is not None:
        return (tune.qloguniform if asked.is_log else tune.quniform)(low, high, step)
    return (tune.loguniform if asked.is_log else tune.uniform)(low, high)


def text_of(found: Range) -> str:
    """A range as --ranges takes it."""
    return f"{found.low!r}{BETWEEN}{found.high!r}"
