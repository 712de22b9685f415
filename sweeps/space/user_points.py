"""Points of a space that the user gives: a trial of the user's own choosing, checked value by value, and the
defaults of Params."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.common.errors import UserError, refuse
from sweeps.common.param_types import (
    are_same,
    given_fault,
    held,
    hints_of,
    refusal,
    shown,
    type_fault,
    unfit_defaults,
)
from sweeps.common.yaml_values import ParamValue, is_number, nearest
from sweeps.space.composite import OneSpace, SeveralSpaces
from sweeps.space.domain import Domain
from sweeps.space.flat import FlatSpace
from sweeps.space.numeric_range import Range, in_full
from sweeps.space.point import InvalidPoint, Point, Space, TrialProxy


def user_point(space: Space, values: Mapping[str, ParamValue]) -> Point:
    """The point of these values.

    Args:
        values: by hyperparameter; of several models each as `MODEL.HYPERPARAMETER`.

    Raises:
        UserError: they are not a point of the space: every fault, one a line.
    """
    own, values = _model_of(space, values)
    hints = hints_of(own.params_class)
    others = {n: v for n, v in values.items() if n in hints and not isinstance(v, int | float)}
    values = {**values, **{n: held(v, hints[n]) for n, v in others.items() if not type_fault(v, hints[n])}}
    asked = _GivenValues(values)
    try:
        if isinstance(own, FlatSpace):
            point = own.point({n: asked.in_domain(n, each, hints[n]) for n, each in own.domains.items()})
        else:
            point = own.suggest(asked)
    except InvalidPoint as error:
        raise UserError("\n".join(asked.faults.values() or [str(error)])) from None
    faults = [*asked.faults.values(), *_faults_of_others(own, values, asked.names)]
    if not faults and (fault := refusal(own.params_class, {**point.fixed, **point.params})):
        faults = [fault]
    refuse(faults)
    return point


@dataclass(frozen=True)
class Baseline:
    """The defaults of a trainable's Params as a point, to compare trials with."""

    trainable: str
    """Its name, as it was given to the sweep."""
    point: Point | None = None
    why_not: str = ""
    """Why there is none."""
    outside: Sequence[str] = ()
    """Hyperparameters whose defaults lie outside the space."""


def baseline(
    own: OneSpace, called: str, values: Mapping[str, ParamValue], prepared: Collection[str]
) -> Baseline:
    """The defaults as a point, also where they lie outside the space.

    Args:
        called: the trainable, as messages name it.
        values: its defaults.
        prepared: those that its prepared data depends on.
    """
    asked = _GivenValues(values)
    if isinstance(own, FlatSpace):
        swept = [*own.domains]
        for name, domain in own.domains.items():
            asked.in_domain(name, domain, hints_of(own.params_class)[name])
    else:
        try:
            swept = [*own.suggest(asked).params]  # of the branch that these values are on
        except InvalidPoint as error:
            return Baseline(own.trainable, why_not=str(error))
    if missing := [name for name in swept if name not in values]:
        unfit = unfit_defaults(own.params_class, missing)
        lacking = ", ".join(name for name in missing if name not in unfit)
        whys = [*unfit.values(), *([f"{called} has no default for {lacking}"] if lacking else [])]
        return Baseline(own.trainable, why_not=", and ".join(whys))
    outside = [name for name in swept if name in asked.faults]
    if needed := [name for name in outside if name in prepared]:
        given = ", ".join(f"{name}={shown(values[name])}" for name in needed)
        why = f"no data is prepared for {given}, which lies outside the space"
        return Baseline(own.trainable, why_not=why)
    params = {name: values[name] for name in swept}
    fixed = {name: value for name, value in own.fixed.items() if name not in params}
    if fault := refusal(own.params_class, {**fixed, **params}):
        return Baseline(own.trainable, why_not=f"Params refuses its defaults: {fault}")
    return Baseline(own.trainable, Point(own.trainable, params, fixed), outside=outside)


def _model_of(space: Space, values: Mapping[str, ParamValue]) -> tuple[OneSpace, Mapping[str, ParamValue]]:
    """The space of the model that is meant, and the values by the names of its own hyperparameters."""
    if not isinstance(space, SeveralSpaces):
        assert isinstance(space, OneSpace)
        return space, values
    models = {name.rpartition(".")[0] for name in values}
    (model, *others) = sorted(models) or [""]
    if others or model not in space.spaces:
        example = f"{next(iter(space.spaces))}.{next(iter(values), 'lr').rpartition('.')[2]}"
        raise UserError(
            f"{', '.join(values)}: the sweep has several models; give all hyperparameters of one of them, as "
            f"{example}=VALUE.{nearest(model, space.spaces)} Models: {', '.join(space.spaces)}"
        )
    return space.spaces[model], {name.rpartition(".")[2]: value for name, value in values.items()}


def _faults_of_others(own: OneSpace, values: Mapping[str, ParamValue], names: Sequence[str]) -> list[str]:
    """Names that are no hyperparameters of this point."""
    faults = []
    for name, value in values.items():
        if name in names or (name in own.fixed and are_same(own.fixed[name], value)):
            continue
        if name in own.fixed:
            faults.append(f"{name}={shown(value)}: fixed at {shown(own.fixed[name])} in this sweep")
        else:
            listed = f"{nearest(name, names)} Hyperparameters: {', '.join(names)}"
            of = "this search space" if isinstance(own, FlatSpace) else "this trial"
            faults.append(f"{name}: no hyperparameter of {of}.{listed}")
    return faults


class _GivenValues(TrialProxy):
    """A trial that suggests what was given, and goes on with something else where that does not fit."""

    def __init__(self, values: Mapping[str, ParamValue]) -> None:
        self._values = values
        self.names: list[str] = []
        """What was asked for."""
        self.faults: dict[str, str] = {}
        """By what was asked for."""

    def in_domain(self, name: str, domain: Domain, hint: Any) -> Any:
        """The value in a domain, or another one beside a fault; of a function any of its type."""
        if domain.choices is not None:
            return self._choice(name, domain.choices)
        if domain.range is not None:
            return self._number(name, domain.range)
        if self._is_given(name, f"its values: {domain}") and (fault := given_fault(self._values[name], hint)):
            self.faults[name] = f"{name}={shown(self._values[name])}: {fault}"
        return self._values.get(name)

    def _choice(self, name: str, choices: Sequence[Any]) -> Any:
        listed = [*map(shown, choices)]
        among = f"one of {', '.join(listed)}"
        if self._is_given(name, among):
            value = self._values[name]
            for choice in choices:
                if are_same(choice, value) or str(choice) == str(value):
                    return choice
            near = nearest(shown(value), listed)
            self.faults[name] = f"{name}={shown(value)}: must be {among}{near and f'.{near}'}"
        return choices[0]

    def _number(self, name: str, asked: Range) -> float:
        if not self._is_given(name, str(asked)):
            return asked.low
        value = self._values[name]
        if not is_number(value):
            self.faults[name] = f"{name}={shown(value)}: must be a number, {asked}"
            return asked.low
        within = asked.nearest(value)
        if within != value:
            self.faults[name] = f"{name}={value}: must be {asked}; the nearest is {in_full(within)}"
        return within

    def _is_given(self, name: str, values: str) -> bool:
        """Note that a hyperparameter was asked for, with what values there are; whether it was given."""
        self.names.append(name)
        if name not in self._values:
            self.faults[name] = f"{name}: missing; {values}"
        return name in self._values
