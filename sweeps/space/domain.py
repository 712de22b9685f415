"""The domain of a hyperparameter, made of a `ray.tune` domain, of choices or of a range."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ray import tune
from ray.tune.search.sample import Categorical, Float, Function, Integer, Quantized

from sweeps.common.param_types import given_fault, held, plain, shown, typed
from sweeps.space.numeric_range import Range, clean
from sweeps.space.point import Suggests, suggested

Form = Literal["grid_search", "sample_from", "normal", "finite", "continuous", "conditional", "several"]
"""What a searcher can or can't take; `finite` is a choice, whole numbers, or a quantized range,
`conditional` a whole space that is defined by `suggest`, `several` those of several models."""
FORM_NAMES = {"normal": "tune.randn", "finite": "a choice", "continuous": "a continuous range"}
"""In messages; the other forms have the name of their function in `ray.tune`."""


@dataclass(frozen=True)
class Domain:
    """The values of a hyperparameter: a range or choices as in Optuna, or a form that Optuna lacks."""

    form: Form
    exactly: str
    """A text; different domains have different texts."""
    tune: Any = field(compare=False, repr=False)
    """The `ray.tune` domain that random values are drawn from."""
    choices: list[Any] | None = None
    """The values of a choice or a grid, as a sweep holds them; None of other domains."""
    range: Range | None = None
    """None of choices, and of a `sample_from` or normal domain, which Optuna does not have."""
    step: float | None = None
    """Gap between values, of a normal domain too; 1 of whole numbers."""

    @property
    def is_of_optuna(self) -> bool:
        """Whether Optuna has such a domain."""
        return self.choices is not None or self.range is not None

    def values(self) -> Sequence[Any] | None:
        """All values of a finite domain, in order; None of one that is continuous or a function."""
        return self.choices if self.range is None else self.range.values()

    def size(self) -> float:
        """Number of values; infinite where they can't be listed."""
        if self.range is None:
            return math.inf if self.choices is None else len(self.choices)
        return math.inf if self.range.count is None else self.range.count

    def suggest(self, trial: Suggests, name: str) -> Any:
        """The value that a trial suggests, of a domain of Optuna's. It has no steps on a log scale."""
        if self.range is None:
            return trial.suggest_categorical(name, self.choices or [])
        asked = dataclasses.replace(self.range, step=None) if self.range.is_log else self.range
        return self.range.nearest(suggested(trial, name, asked))

    @property
    def form_name(self) -> str:
        """The form, for messages."""
        return FORM_NAMES.get(self.form, f"tune.{self.form}")

    def __str__(self) -> str:
        if self.choices is not None:
            kind = "grid of" if self.form == "grid_search" else "one of"
            return f"{kind} {', '.join(map(shown, self.choices))}"
        is_whole = self.range is not None and self.range.is_whole and self.step == 1
        return f"{self.range or self.form}{', whole numbers' if is_whole else ''}"


def converted(domain: Any, hint: Any = Any) -> Domain:
    """The `Domain` of a `ray.tune` domain.

    Raises:
        TypeError: it is not a `ray.tune` domain.
        ValueError: it holds no value, or values of another type; every fault, one a line.
    """
    if isinstance(domain, Mapping) and isinstance(domain.get("grid_search"), Iterable):
        return _of_choices(domain, list(domain["grid_search"]), hint)
    if isinstance(domain, Categorical):
        return _of_choices(domain, list(domain.categories), hint)
    if isinstance(domain, Function):
        return Domain("sample_from", "sample_from", domain)  # of a function, the file is compared
    if isinstance(domain, Float | Integer):
        return _of_numbers(domain)
    raise TypeError(f"{domain!r} is not a ray.tune domain")


def of_choices(choices: list[Any], hint: Any = Any, is_grid: bool = False) -> Domain:
    """The domain of choices, or of a grid; `converted` says what it raises."""
    return converted({"grid_search": choices} if is_grid else tune.choice(choices), hint)


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


def _of_choices(domain: Any, choices: list[Any], hint: Any) -> Domain:
    if not choices:
        raise ValueError("no value to choose from")
    if faults := [f"{value!r}: {fault}" for value in choices if (fault := given_fault(value, hint))]:
        raise ValueError("\n".join(faults))
    kept = [held(value, hint) for value in choices]
    if len(set(kept)) < len(choices):
        raise ValueError(f"a value occurs twice in {choices}")
    is_grid = isinstance(domain, Mapping)
    values = [repr(plain(typed(value, hint))) for value in choices]
    exactly = f"{'grid of' if is_grid else 'one of'} {', '.join(values)}"
    return Domain("grid_search" if is_grid else "finite", exactly, domain, kept)


def _of_numbers(domain: Any) -> Domain:
    sampler, is_whole = domain.get_sampler(), isinstance(domain, Integer)
    step: float | None = 1 if is_whole else None
    if isinstance(sampler, Quantized):
        sampler, step = sampler.get_sampler(), sampler.q
    by = f" in steps of {step if is_whole else float(step)}" if step else ""
    if not math.isfinite(domain.upper - domain.lower):
        return Domain("normal", f"normal {vars(sampler)}{by}", domain, step=step)
    if domain.lower > domain.upper:
        raise ValueError(f"bounds reversed: {domain.lower:g} to {domain.upper:g}")
    low, high, is_log = domain.lower, domain.upper, "Log" in type(sampler).__name__
    if is_whole and step == 1:
        high -= 1  # exclusive, unless in larger steps
    elif step is not None:
        if step != clean(step, step):
            raise ValueError(f"steps of {step!r}: give a step with at most 10 digits")
        low = clean(math.ceil(low / step - 1e-9) * step, step)
        high = clean(math.floor(high / step + 1e-9) * step, step)
    if low > high:
        raise ValueError(f"empty: no value from {domain.lower:g} to {domain.upper:g}")
    if is_log and low <= 0:
        raise ValueError(f"log scale from {low:g}: the lower bound must be above 0")
    if is_whole and not -(2**63) <= low <= high < 2**63:
        raise ValueError("whole numbers must have at most 64 bits, as NumPy's have")
    low, high = (int(low), int(high)) if is_whole else (float(low), float(high))
    found = Range(low, high, is_log, step, is_whole)
    exactly = f"{found.low} to {found.high}{by}{', log scale' if is_log else ''}"
    return Domain("continuous" if step is None else "finite", exactly, domain, None, found, step)
