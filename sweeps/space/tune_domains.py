"""Conversion of `ray.tune` domains to `Domain`, and of choices and ranges to both."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from ray import tune
from ray.tune.search.sample import Categorical, Float, Function, Integer, Quantized

from sweeps.space.domain import Domain
from sweeps.space.numeric_range import Range, clean


def converted(domain: Any) -> Domain:
    """The `Domain` of a `ray.tune` domain.

    Raises:
        TypeError: it is not a `ray.tune` domain.
        ValueError: it holds no value, and why.
    """
    if isinstance(domain, Mapping) and isinstance(domain.get("grid_search"), Iterable):
        return _of_choices(domain, list(domain["grid_search"]))
    if isinstance(domain, Categorical):
        return _of_choices(domain, list(domain.categories))
    if isinstance(domain, Function):
        return Domain("sample_from", "sample_from", domain)  # of a function, the file is compared
    if isinstance(domain, Float | Integer):
        return _of_numbers(domain)
    raise TypeError(f"{domain!r} is not a ray.tune domain")


def of_choices(choices: list[Any], is_grid: bool = False) -> Domain:
    """The domain of choices, or of a grid."""
    return converted({"grid_search": choices} if is_grid else tune.choice(choices))


def of_range(asked: Range) -> Domain:
    """The domain of a range. Ray's upper bound of whole numbers is exclusive, unless in steps."""
    low, high, step = asked.low, asked.high, asked.step
    if asked.is_whole:
        low, high = math.ceil(low), math.floor(high)
        if step in (None, 1):
            return converted((tune.lograndint if asked.is_log else tune.randint)(low, high + 1))
        return converted((tune.qlograndint if asked.is_log else tune.qrandint)(low, high, int(step or 1)))
    if step is not None:
        return converted((tune.qloguniform if asked.is_log else tune.quniform)(low, high, step))
    return converted((tune.loguniform if asked.is_log else tune.uniform)(low, high))


def _of_choices(domain: Any, choices: list[Any]) -> Domain:
    if not choices:
        raise ValueError("no value to choose from")
    is_grid = isinstance(domain, Mapping)
    exactly = f"{'grid of' if is_grid else 'one of'} {', '.join(map(repr, choices))}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that Params refuses too
        distribution = CategoricalDistribution(choices)
    return Domain("grid_search" if is_grid else "finite", exactly, domain, distribution)


def _of_numbers(domain: Any) -> Domain:
    sampler, is_whole = domain.get_sampler(), isinstance(domain, Integer)
    step: float | None = 1 if is_whole else None
    if isinstance(sampler, Quantized):
        sampler, step = sampler.get_sampler(), sampler.q
    by = f" in steps of {step}" if step else ""
    if not math.isfinite(domain.upper - domain.lower):
        return Domain("normal", f"normal {vars(sampler)}{by}", domain, step=step)
    if domain.lower > domain.upper:
        raise ValueError(f"bounds reversed: {domain.lower:g} to {domain.upper:g}")
    low, high, is_log = domain.lower, domain.upper, "Log" in type(sampler).__name__
    if is_whole and step == 1:
        high -= 1  # exclusive, unless in larger steps
    elif step is not None:
        low = clean(math.ceil(low / step - 1e-9) * step, step)
        high = clean(math.floor(high / step + 1e-9) * step, step)
    if low > high:
        raise ValueError(f"empty: no value from {domain.lower:g} to {domain.upper:g}")
    if is_log and low <= 0:
        raise ValueError(f"log scale from {low:g}: the lower bound must be above 0")
    distribution: Any
    if is_whole:
        distribution = IntDistribution(int(low), int(high), log=is_log, step=1 if is_log else int(step or 1))
    else:
        distribution = FloatDistribution(float(low), float(high), log=is_log, step=None if is_log else step)
    exactly = f"{low} to {high}{by}{', log scale' if is_log else ''}"
    return Domain("continuous" if step is None else "finite", exactly, domain, distribution, step)
