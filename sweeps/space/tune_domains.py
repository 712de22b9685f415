"""What a `ray.tune` domain holds: its values, bounds and step, and its name in Optuna."""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from ray.tune.search.sample import Categorical, Domain, Float, Function, Integer, Quantized

from sweeps.space.point import Suggests

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Form = Literal["grid_search", "sample_from", "normal", "finite", "continuous", "conditional", "several"]
"""What a searcher can or can't take; `finite` is a choice, whole numbers, or a quantized range,
`conditional` a whole space that is defined by `suggest`, `several` those of several models."""


def form(domain: object) -> Form:
    """Which of the forms that a searcher may refuse a domain has."""
    if isinstance(domain, Mapping) and "grid_search" in domain:
        return "grid_search"
    if isinstance(domain, Function):
        return "sample_from"
    if isinstance(domain, Float) and not math.isfinite(domain.upper - domain.lower):
        return "normal"
    is_finite = isinstance(domain, Categorical) or step_of(domain) is not None
    return "finite" if is_finite else "continuous"


def values_of(domain: Any) -> list[Any] | None:
    """All values of a finite domain; None where it is continuous or a function."""
    if form(domain) == "grid_search":
        return list(domain["grid_search"])
    if isinstance(domain, Categorical):
        return list(domain.categories)
    step = step_of(domain)
    if form(domain) != "finite" or step is None:
        return None
    low, high = bounds(domain)
    return [clean(low + i * step, step) for i in range(round((high - low) / step) + 1)]


def distribution(domain: Any) -> BaseDistribution | None:
    """A `ray.tune` domain as Optuna's distribution; None where Optuna has no such thing."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if form(domain) in ("sample_from", "normal"):
        return None
    if form(domain) == "grid_search" or isinstance(domain, Categorical):
        return CategoricalDistribution(values_of(domain) or [])
    step, log = step_of(domain), is_log(domain)
    low, high = bounds(domain)
    if isinstance(domain, Integer):
        # Optuna has no log scale with a step: the step is put back by `on_grid`.
        return IntDistribution(int(low), int(high), log=log, step=1 if log else int(step or 1))
    return FloatDistribution(float(low), float(high), log=log, step=None if log else step)


def suggest(trial: Suggests, name: str, domain: Any) -> Any:
    """A value of a domain that Optuna has a word for, as a trial suggests it."""
    from optuna.distributions import FloatDistribution, IntDistribution

    word = distribution(domain)
    if isinstance(word, IntDistribution):
        value: Any = trial.suggest_int(name, word.low, word.high, step=word.step, log=word.log)
    elif isinstance(word, FloatDistribution):
        value = trial.suggest_float(name, word.low, word.high, step=word.step, log=word.log)
    else:
        value = trial.suggest_categorical(name, values_of(domain) or [])
    return on_grid(domain, value)


def on_grid(domain: Any, value: Any) -> Any:
    """The nearest value of a quantized domain; other values as they are."""
    step = step_of(domain)
    if step is None or not isinstance(value, int | float):
        return value
    low, high = bounds(domain)
    nearest_value = min(max(low, round(value / step) * step), high)
    return int(nearest_value) if isinstance(domain, Integer) else clean(nearest_value, step)


def step_of(domain: Any) -> float | None:
    """The quantum of a domain: q, 1 for whole numbers, None where there is none."""
    if not isinstance(domain, Domain):
        return None
    sampler = domain.get_sampler()
    if isinstance(sampler, Quantized):
        return typing.cast(float, sampler.q)
    return 1 if isinstance(domain, Integer) else None


def describe(domain: Any) -> str:
    """A domain in a few words, for the plan."""
    if form(domain) == "grid_search":
        return "grid of " + ", ".join(map(str, domain["grid_search"]))
    if isinstance(domain, Categorical):
        return "one of " + ", ".join(map(str, domain.categories))
    if form(domain) in ("sample_from", "normal"):
        return form(domain)
    step = step_of(domain)
    low, high = bounds(domain)
    scale = ", log scale" if is_log(domain) else ""
    by = f" in steps of {step:g}" if step not in (None, 1) else ""
    return f"{low:g} to {high:g}{by}{scale}"


def exactly(domain: Any) -> str:
    """A domain, exactly: two that differ read differently."""
    if form(domain) == "sample_from":
        return "sample_from"  # the file of the space is compared
    if form(domain) == "normal":
        sampler = domain.get_sampler()
        step = getattr(sampler, "q", None)
        return f"normal {vars(sampler.get_sampler() if step else sampler)}{_by(step)}"
    if isinstance(domain, Mapping) or hasattr(domain, "categories"):
        kind = "grid of" if form(domain) == "grid_search" else "one of"
        return f"{kind} {', '.join(map(repr, values_of(domain) or []))}"
    low, high = bounds(domain)
    return f"{low} to {high}{_by(step_of(domain))}" + (", log scale" if is_log(domain) else "")


def _by(step: float | None) -> str:
    return f" in steps of {step}" if step else ""


def is_log(domain: Any) -> bool:
    """Whether a range is drawn on a log scale."""
    sampler = domain.get_sampler()
    if isinstance(sampler, Quantized):
        sampler = sampler.get_sampler()
    return "Log" in type(sampler).__name__


def bounds(domain: Any) -> tuple[float, float]:
    """First and last value. Ray's upper bound of whole numbers is open, unless in steps above 1."""
    low, high, step = domain.lower, domain.upper, step_of(domain)
    if isinstance(domain, Integer) and step == 1:
        return low, high - 1
    if step is None:
        return low, high
    first, last = math.ceil(low / step - 1e-9) * step, math.floor(high / step + 1e-9) * step
    return clean(first, step), clean(last, step)


def clean(value: float, step: float | None) -> Any:
    """0.30000000000000004 in steps of 0.1 is 0.3."""
    if step is None or isinstance(value, int):
        return value
    digits = max(0, 3 - math.floor(math.log10(step)))
    return round(value, digits)
