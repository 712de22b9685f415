"""A space of `ray.tune` domains, checked against the trainable's Params before anything runs."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from ray.tune.search.sample import Categorical, Domain, Float, Integer
from ray.tune.search.variant_generator import generate_variants

from sweeps.common.errors import UserError
from sweeps.common.param_types import cast, given, hints_of, names_of, plain_types, type_fault, unknown
from sweeps.common.yaml_values import ParamValue
from sweeps.space.point import Point, Suggests
from sweeps.space.tune_domains import (
    Form,
    bounds,
    clean,
    describe,
    distribution,
    exactly,
    form,
    is_log,
    step_of,
    suggest,
    values_of,
)

SWEPT_AND_FIXED = "swept by the space and fixed by --params; take it out of one"


@dataclass(frozen=True)
class FlatSpace:
    """SPACE, checked, and the hyperparameters that stand still: every point has the same hyperparameters."""

    domains: Mapping[str, Any]
    """Swept hyperparameter to its `ray.tune` domain."""
    fixed: Mapping[str, ParamValue]
    """Every other field of Params, with its value."""
    params_class: Any
    """Params of the trainable."""
    trainable: str = ""
    """As it was named to the sweep."""

    is_conditional = False

    @property
    def dimensions(self) -> int:
        return len(self._words())

    @property
    def has_code(self) -> bool:
        """Whether its file says more than its words do."""
        return any(form(domain) == "sample_from" for domain in self.domains.values())

    def draw(self, seeds: tuple[int, ...]) -> Point:
        """One random point; the same seeds draw the same point."""
        generator = np.random.default_rng(np.random.SeedSequence(seeds))
        with seeded_globals(int(generator.integers(2**32))):
            # A sample_from reads the other hyperparameters, so it is drawn after them.
            ordered = dict(sorted(self.domains.items(), key=lambda item: form(item[1]) == "sample_from"))
            _, point = next(generate_variants(ordered, random_state=generator))
        return self._point({name: point[name] for name in self.domains})

    def grid(self) -> Iterator[Point]:
        """Every point of a finite space, the last hyperparameter changing fastest."""
        values = {name: values_of(domain) for name, domain in self.domains.items()}
        for point in itertools.product(*[v or [] for v in values.values()]):
            yield self._point(dict(zip(values, point, strict=True)))

    def size(self) -> float:
        """Number of points; infinite where a hyperparameter is continuous."""
        counts = [len(v) if (v := values_of(d)) is not None else math.inf for d in self.domains.values()]
        return math.prod(counts)

    def suggest(self, trial: Suggests) -> Point:
        """The point of the values that a trial suggests, hyperparameter by hyperparameter (a `sample_from` has none)."""
        return self._point({name: suggest(trial, name, self.domains[name]) for name in self._words()})

    def names(self, point: Point) -> dict[str, ParamValue]:
        """The hyperparameters that Optuna has a word for."""
        return {name: point.params[name] for name in self._words()}

    def describe(self) -> dict[str, str]:
        """Hyperparameter to its domain in a few words."""
        return {name: describe(domain) for name, domain in self.domains.items()}

    def exactly(self) -> dict[str, str]:
        """Hyperparameter to its domain, such that two which differ read differently."""
        return {name: exactly(domain) for name, domain in self.domains.items()}

    def _words(self) -> list[str]:
        return [name for name, domain in self.domains.items() if distribution(domain) is not None]

    def _point(self, values: Mapping[str, Any]) -> Point:
        """Plain Python values of the types that Params states, on the hyperparameter's own grid."""
        hints, params = hints_of(self.params_class), {}
        for name, value in values.items():
            value = value.item() if isinstance(value, np.generic) else value
            if isinstance(value, float):
                value = clean(value, step_of(self.domains[name]))
            params[name] = cast(value, hints[name])
        return Point(self.trainable, params, self.fixed)


def check(
    space: object,
    params_class: Any,
    fixed: Mapping[str, Any],
    takes: frozenset[Form],
    searcher: str,
    trainable: str = "",
) -> FlatSpace:
    """The space and the fixed hyperparameters against Params and against what the searcher can take.

    Raises:
        UserError: all faults at once, one a line.
    """
    if not isinstance(space, Mapping) or not space:
        raise UserError(
            "SPACE must be a dict with at least one hyperparameter, such as {'lr': tune.loguniform(1e-3, 0.1)}"
        )
    hints = hints_of(params_class)
    defaults = {f.name: getattr(params_class(), f.name) for f in dataclasses.fields(params_class)}
    faults = []
    for name, domain in space.items():
        faults += _faults_of_domain(name, domain, hints, takes, searcher)
        if name in fixed:
            faults.append(f"{name}: {SWEPT_AND_FIXED}")
    values, wrong = given(params_class, fixed)
    faults += wrong
    if not faults:
        faults = _faults_of_values(params_class, space, values)
    if faults:
        raise UserError("\n".join(faults))
    fixed_values = {name: value for name, value in {**defaults, **values}.items() if name not in space}
    checked = FlatSpace(space, fixed_values, params_class, trainable)
    if any(form(domain) == "sample_from" for domain in space.values()):
        _try_functions(checked)
    return checked


def _try_functions(space: FlatSpace) -> None:
    """A `sample_from` is the user's code: draw from it before anything runs."""
    for number in range(10):
        try:
            point = space.draw((0, number))
        except ValueError as error:  # Ray says which hyperparameter; the cause is what went wrong there
            cause = error.__context__ or error
            raise UserError(f"{error}: {type(cause).__name__}: {cause}") from None
        hints = hints_of(space.params_class)
        for name, value in point.params.items():
            if fault := type_fault(value, hints[name]):
                raise UserError(f"{name}: sample_from gave {value!r}: {fault}")


def _faults_of_domain(
    name: str, domain: Any, hints: Mapping[str, Any], takes: frozenset[Form], searcher: str
) -> list[str]:
    if name not in hints:
        return [f"{name}: {unknown(str(name), hints)}"]
    if not isinstance(domain, Domain) and form(domain) != "grid_search":
        return [
            f"{name}: {domain!r} is no ray.tune domain; "
            f"a hyperparameter that stands still is given as --params {name}={domain}"
        ]
    if form(domain) not in takes:
        return [f"{name}: searcher {searcher} can't take {_called(domain)}. {_remedy(searcher)}"]
    if form(domain) == "grid_search" or isinstance(domain, Categorical):
        return _faults_of_choices(name, domain, hints[name])
    if form(domain) in ("sample_from", "normal"):
        return []
    return _faults_of_range(name, domain, hints[name])


def _faults_of_choices(name: str, domain: Any, hint: Any) -> list[str]:
    values = values_of(domain) or []
    if not values:
        return [f"{name}: no value to choose from"]
    faults = [f"{name}: {value!r}: {fault}" for value in values if (fault := type_fault(value, hint))]
    if not faults and len(set(values)) < len(values):
        faults.append(f"{name}: a value stands twice among {values}")
    return faults


def _faults_of_range(name: str, domain: Any, hint: Any) -> list[str]:
    low, high = bounds(domain)
    if domain.lower > domain.upper:
        return [f"{name}: bounds reversed: {domain.lower:g} to {domain.upper:g}"]
    if low > high:
        return [f"{name}: empty: no value from {domain.lower:g} to {domain.upper:g}"]
    if is_log(domain) and low <= 0:
        return [f"{name}: log scale from {low:g}: the lower bound must be above 0"]
    wanted = plain_types(hint)
    if isinstance(domain, Float) and float not in wanted:
        return [
            f"{name}: the space gives fractions, Params.{name} is {names_of(hint)}; "
            "use tune.randint or tune.qrandint"
        ]
    if isinstance(domain, Integer) and not {int, float} & wanted:
        return [f"{name}: the space gives whole numbers, Params.{name} is {names_of(hint)}"]
    return []


def _faults_of_values(
    params_class: Any, space: Mapping[str, Any], fixed: Mapping[str, ParamValue]
) -> list[str]:
    """Params may refuse values in `__post_init__`: ask it about the ends of every range."""
    try:
        params_class(**fixed)
    except (ValueError, TypeError) as error:
        return [f"--params: {error}"]
    faults = []
    for name, domain in space.items():
        for value in _ends(domain):
            try:
                params_class(**fixed, **{name: value})
            except (ValueError, TypeError) as error:
                faults.append(f"{name}: {error}")
                break
    return faults


def _ends(domain: Any) -> list[Any]:
    values = values_of(domain) if not isinstance(domain, Float | Integer) else None
    if values is not None:
        return values
    if form(domain) in ("sample_from", "normal"):
        return []
    low, high = bounds(domain)
    kind = int if isinstance(domain, Integer) else float
    return [kind(low), kind(high)]


def _called(domain: Any) -> str:
    words = {"normal": "tune.randn", "finite": "a choice", "continuous": "a continuous range"}
    return words.get(form(domain), f"tune.{form(domain)}")


def _remedy(searcher: str) -> str:
    if searcher == "grid":
        return "Use grid_search([...]), choice([...]), randint or a quantized range, or --searcher random."
    return (
        "Use tune.choice or a range, or --searcher grid for grid_search, --searcher random for sample_from."
    )


@contextlib.contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """A `sample_from` may draw from `random` or `np.random`: seed both, then put them back."""
    states = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
