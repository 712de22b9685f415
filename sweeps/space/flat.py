"""A space of `ray.tune` domains, checked against the trainable's Params before anything runs."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from ray.tune.search.variant_generator import generate_variants

from sweeps.common.errors import UserError, refuse
from sweeps.common.param_types import (
    fixed_defaults,
    given,
    held,
    hints_of,
    names_of,
    plain_types,
    refusal,
    refused,
    unknown,
)
from sweeps.common.yaml_values import ParamValue
from sweeps.space import overrides
from sweeps.space.domain import Domain, Form, converted
from sweeps.space.numeric_range import clean
from sweeps.space.point import InvalidPoint, Point, Space, Suggests

SWEPT_AND_FIXED = "swept by the space and fixed by --params; take it out of one"


@dataclass(frozen=True)
class FlatSpace(Space):
    """A checked SPACE and the fixed hyperparameters: every point has the same hyperparameters."""

    domains: Mapping[str, Domain]
    """Swept hyperparameters."""
    fixed: Mapping[str, ParamValue]
    """Every other field of Params, with its value."""
    params_class: Any
    """Params of the trainable."""
    trainable: str = ""
    """Its name, as it was given to the sweep."""

    is_conditional = False

    @property
    def dimensions(self) -> int:
        return len(self._suggested())

    @property
    def has_code(self) -> bool:
        """Whether `exactly` can't describe it: the code of its file counts too."""
        return any(domain.form == "sample_from" for domain in self.domains.values())

    def draw(self, seeds: tuple[int, ...]) -> Point:
        return self._drawn(seeds, {})

    def completed(self, point: Point, seeds: tuple[int, ...]) -> Point:
        if len(self._suggested()) == len(self.domains):
            return point
        return self._drawn(seeds, point.params)

    def _drawn(self, seeds: tuple[int, ...], known: Mapping[str, Any]) -> Point:
        """A random point with these values, but for those of a `sample_from`, which may read others."""
        generator = np.random.default_rng(np.random.SeedSequence(seeds))
        with seeded_globals(int(generator.integers(2**32))):
            # A sample_from may read the other hyperparameters, so it is drawn after them.
            ordered = sorted(self.domains.items(), key=lambda item: item[1].form == "sample_from")
            domains = {
                name: known[name] if name in known and domain.form != "sample_from" else domain.tune
                for name, domain in ordered
            }
            _, point = next(generate_variants(domains, random_state=generator))
        return self.point({name: point[name] for name in self.domains})

    def grid(self) -> Iterator[Point]:
        """Every point of a finite space; the last hyperparameter changes fastest."""
        for point in itertools.product(*[domain.values() or [] for domain in self.domains.values()]):
            yield self.point(dict(zip(self.domains, point, strict=True)))

    def size(self) -> float:
        return math.prod(domain.size() for domain in self.domains.values())

    def suggest(self, trial: Suggests) -> Point:
        return self.point({name: self.domains[name].suggest(trial, name) for name in self._suggested()})

    def with_values_of(self, point: Point) -> Point:
        values = {**point.fixed, **point.params}
        return self.point({name: values[name] for name in self.domains})

    def names(self, point: Point) -> dict[str, ParamValue]:
        return {name: point.params[name] for name in self._suggested()}

    def describe(self) -> dict[str, str]:
        """Hyperparameter to its domain in a few words."""
        return {name: str(domain) for name, domain in self.domains.items()}

    def exactly(self) -> dict[str, str]:
        """Hyperparameter to its domain; different domains have different texts."""
        return {name: domain.exactly for name, domain in self.domains.items()}

    def _suggested(self) -> list[str]:
        """Hyperparameters that Optuna can suggest."""
        return [name for name, domain in self.domains.items() if domain.is_of_optuna]

    def point(self, values: Mapping[str, Any]) -> Point:
        """The point of these values, without rounding errors.

        Raises:
            InvalidPoint: one does not fit the type of its hyperparameter.
        """
        hints, params = hints_of(self.params_class), {}
        for name, value in values.items():
            domain = self.domains[name]
            if isinstance(value, float):
                value = clean(value, domain.step)
            try:
                params[name] = held(value, hints[name])
            except ValueError as error:
                raise InvalidPoint({name: f"{name}: {domain.form_name} gave {value!r}: {error}"}) from None
        return Point(self.trainable, params, self.fixed)


def check(
    space: object,
    params_class: Any,
    fixed: Mapping[str, Any],
    takes: frozenset[Form],
    searcher: str,
    trainable: str = "",
    ranges: Mapping[str, Any] | None = None,
) -> FlatSpace:
    """SPACE, in the ranges of --ranges, checked against Params and the searcher.

    Raises:
        UserError: all faults at once, one a line.
    """
    if not isinstance(space, Mapping) or not (space or ranges):
        raise UserError(
            "SPACE must be a dict with at least one hyperparameter, "
            "such as {'lr': tune.loguniform(1e-3, 0.1)}"
        )
    hints = hints_of(params_class)
    domains, faults = _converted(space, hints)
    if ranges and not faults:
        domains, in_ranges = overrides.applied(domains, ranges, takes, hints)
        fixed = {**in_ranges, **fixed}
    for name, domain in domains.items():
        faults[name] = _faults_of_domain(name, domain, hints[name], takes, searcher)
    lines = [f"{name}: {fault}" for name in {**space, **domains} for fault in faults.get(name, [])]
    lines += [f"{name}: {SWEPT_AND_FIXED}, or give --freeze" for name in domains if name in fixed]
    values, wrong = given(params_class, fixed)
    lines += wrong
    if not lines:
        lines = _faults_of_values(params_class, domains, values)
    refuse(lines)
    fields = fixed_defaults(params_class) | values
    fixed = {name: value for name, value in fields.items() if name not in domains}
    checked = FlatSpace(domains, fixed, params_class, trainable)
    if checked.has_code:
        _try_functions(checked)
    return checked


def _converted(
    space: Mapping[str, Any], hints: Mapping[str, Any]
) -> tuple[dict[str, Domain], dict[str, list[str]]]:
    """The domains of a space, and the faults of those that can't be converted."""
    domains, faults = {}, {}
    for name, domain in space.items():
        if name not in hints:
            faults[name] = [unknown(str(name), hints)]
            continue
        try:
            domains[name] = converted(domain, hints[name])
        except TypeError as error:
            faults[name] = [f"{error}; {_instead(name, domain)}"]
        except ValueError as error:
            faults[name] = str(error).splitlines()
    return domains, faults


def _instead(name: str, value: object) -> str:
    """What was meant by a value that is no domain."""
    if isinstance(value, list | tuple):
        return f"to choose one of these values, write tune.choice({list(value)!r})"
    if isinstance(value, str) and ".." in value:
        return f"a range as text is given as --ranges {name}={value}, and here as tune.uniform(0, 1)"
    if not isinstance(value, str | int | float | None):  # a dict of domains, or the domain of another library
        return f"write one of ray.tune, such as {name!r}: tune.uniform(0, 1)"
    return f"a fixed hyperparameter is given as --params {name}={value}"


def _try_functions(space: FlatSpace) -> None:
    """Draw from a `sample_from`, which is the user's code, before anything runs."""
    for number in range(10):
        try:
            space.draw((0, number))
        except InvalidPoint as error:
            raise UserError(str(error)) from None
        except ValueError as error:  # Ray names the hyperparameter; the cause is the user's own error
            cause = error.__context__ or error
            raise UserError(f"{error}: {type(cause).__name__}: {cause}") from None


def _faults_of_domain(
    name: str, domain: Domain, hint: Any, takes: frozenset[Form], searcher: str
) -> list[str]:
    if domain.form not in takes:
        use = "tune.choice or a range, or --searcher grid for grid_search, --searcher random for sample_from"
        if searcher == "grid":
            use = "grid_search([...]), choice([...]), randint or a quantized range, or --searcher random"
            use += f"; with --ranges {name}=A,B,C or {name}=LOW..HIGH:STEP"
        return [f"searcher {searcher} can't take {domain.form_name}. Use {use}."]
    if domain.range is None and domain.form != "normal":
        return []
    wanted, field = plain_types(hint), f"Params.{name} is {names_of(hint)}"
    is_whole = domain.range is not None and domain.range.is_whole
    if not is_whole and not {float, Any} & wanted:
        return [f"the space gives fractions, {field}; use tune.randint or tune.qrandint"]
    if is_whole and not {int, float, Any} & wanted:
        return [f"the space gives whole numbers, {field}"]
    return []


def _faults_of_values(
    params_class: Any, domains: Mapping[str, Domain], fixed: Mapping[str, ParamValue]
) -> list[str]:
    """What Params refuses in `__post_init__`, of the choices and of the ends of every range."""
    if fault := refusal(params_class, fixed):
        return [refused(fixed, fault)]
    faults = []
    for name, domain in domains.items():
        ends = [] if domain.range is None else [domain.range.low, domain.range.high]
        found = (refusal(params_class, {**fixed, name: value}) for value in domain.choices or ends)
        if fault := next(filter(None, found), ""):
            faults.append(fault if fault.startswith(f"{name}: ") else f"{name}: {fault}")
    return faults


@contextlib.contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """Seed `random` and `np.random`, which a `sample_from` may draw from, and restore them afterwards."""
    states = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
