"""A space and its points as models of the trials have them: Optuna's distributions, and rows of numbers.

Beside `point.py`, which a trial's process imports without Optuna.
"""

from __future__ import annotations

import contextlib
import copy
import math
import warnings
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import FixedTrial, FrozenTrial, TrialState, create_trial

from sweeps.common.param_types import are_same
from sweeps.space.numeric_range import Array, Range, are_numbers, clip
from sweeps.space.point import InvalidPoint, OptunaPoint, Point, Space, TrialProxy


def optuna_point(space: Space, point: Point) -> OptunaPoint:
    """A point's values and the distributions that `space` asks for with them.

    Raises:
        LookupError, ValueError: it is not a point of this space.
    """
    names = space.names(point)
    replay = FixedTrial(dict(names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a value out of range: `create_trial` refuses it
        space.suggest(replay)
    if missing := names.keys() - replay.params.keys():
        raise InvalidPoint({name: f"{name}: not a hyperparameter of this point" for name in missing})
    create_trial(state=TrialState.RUNNING, params=replay.params, distributions=replay.distributions)
    return OptunaPoint(replay.params, replay.distributions)


def point_within(space: Space, point: Point, ranges: Container[str] = ()) -> tuple[Point, OptunaPoint] | None:
    """A point as one of `space`, whose ranges may be others than those that it was drawn from; None where it
    lies outside.

    Args:
        point: of the same sweep, or of one that it refines.
        ranges: names for which the sweep was given ranges, or values: what is fixed by these must be equal.
    """
    with contextlib.suppress(LookupError, ValueError):
        found = space.with_values_of(point)
        as_optuna = optuna_point(space, found)
        given = (name for name in point.fixed if name in ranges or f"{point.trainable}.{name}" in ranges)
        had = {**{name: point.fixed[name] for name in given}, **point.params}
        if all(are_same(found.fixed.get(name, value), value) for name, value in had.items()):
            return found, as_optuna
    return None


class _KnownTrial(FrozenTrial):
    """A trial that its study only reads. Optuna copies each one deeply into a study, which takes 25 of the
    40 ms of a proposal after 1,000 trials."""

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenTrial:
        return copy.copy(self)  # the study numbers it


def known_trial(
    point: OptunaPoint,
    state: TrialState,
    values: Sequence[float] | None = None,
    intermediate_values: Mapping[int, float] = MappingProxyType({}),
) -> FrozenTrial:
    """What is known of a point, as a trial for a study in memory."""
    any_time = datetime(1970, 1, 1)
    return _KnownTrial(
        number=-1,
        trial_id=-1,
        state=state,
        value=None,
        values=values,
        datetime_start=any_time,
        datetime_complete=any_time if state.is_finished() else None,
        params=dict(point.params),
        distributions=dict(point.distributions),
        user_attrs={},
        system_attrs={},
        intermediate_values=dict(intermediate_values),
    )


def range_of(distributions: Iterable[BaseDistribution]) -> Range | None:
    """The hull of distributions, with the choices of a grid that became a range; None of choices alone. It is
    of the scale and the steps of the first one, where it can be."""
    found: list[Any] = list(distributions)
    ranges = [each for each in found if not isinstance(each, CategoricalDistribution)]
    points = [value for each in found if each not in ranges for value in each.choices]
    if not ranges or any(isinstance(value, str | bool | None) for value in points):
        return None
    low = min([*points, *(each.low for each in ranges)])
    high = max([*points, *(each.high for each in ranges)])
    is_whole = all(isinstance(each, IntDistribution) for each in ranges)
    return Range(low, high, ranges[0].log and low > 0, ranges[0].step, is_whole)


def choices_of(distributions: Iterable[BaseDistribution]) -> list[Any]:
    """All choices of distributions, in their order; [] where one is a range."""
    found = [each.choices if isinstance(each, CategoricalDistribution) else () for each in distributions]
    if () in found:
        return []
    return list(dict.fromkeys(value for choices in found for value in choices))


@dataclass(frozen=True)
class Axis:
    """One hyperparameter, for a model: a coordinate is a position on the scale of its range, 0 to 1."""

    range: Range
    """Of its values, or of the indices of its choices."""
    choices: tuple[Any, ...] = ()
    """Values without a range; numbers in their order."""

    @property
    def is_ordered(self) -> bool:
        """Whether values between two others are between them in effect, as far as can be known."""
        return are_numbers(self.choices)

    @property
    def columns(self) -> int:
        """Of a row for the model."""
        return 1 if self.is_ordered else len(self.choices)

    def coordinate(self, value: Any) -> float:
        """Of one value.

        Raises:
            ValueError: it is none of the choices.
        """
        return float(self._positions(self.choices.index(value) if self.choices else float(value)))

    def value(self, coordinate: float) -> Any:
        """The value at a coordinate, before the space brings it into its own range and type."""
        number = float(self.range.stepped(self.range.at(coordinate)))
        return self.choices[round(number)] if self.choices else number

    def drawn(self, generator: np.random.Generator, size: int) -> Array:
        """Random coordinates, the ends as likely as the values between them."""
        shares, step = generator.random(size), self.range.step
        if step is None:
            return shares
        wide = replace(self.range, low=self.range.low - step / 2, high=self.range.high + step / 2)
        return self._positions(self.range.stepped(wide.at(shares)))

    def moved(self, coordinates: Array, spread: Array, generator: np.random.Generator) -> Array:
        """Coordinates moved by about the spread, of the whole range; of an unordered choice any other."""
        if not self.is_ordered:
            return self.drawn(generator, len(coordinates))
        moved = np.clip(coordinates + spread * generator.standard_normal(len(coordinates)), 0, 1)
        return moved if self.range.step is None else self._positions(self.range.stepped(self.range.at(moved)))

    def features(self, coordinates: Array) -> Array:
        """[points, columns] for the model; a point without this hyperparameter (nan) is in the middle."""
        if self.is_ordered:
            return np.nan_to_num(coordinates, nan=0.5)[:, None]
        one_hot: Array = (coordinates[:, None] == self._positions(np.arange(self.columns))).astype(np.float64)
        one_hot[np.isnan(coordinates)] = 1 / self.columns
        return one_hot

    def _positions(self, numbers: Any) -> Array:
        return clip(0, 1, self.range.share(numbers))


def axis_of(distributions: Sequence[BaseDistribution]) -> Axis:
    """Of all distributions that a hyperparameter had in samples of its space."""
    if (found := range_of(distributions)) is not None:
        return Axis(found)
    choices = choices_of(distributions)
    indices = Range(0, len(choices) - 1, step=1, is_whole=True)
    return Axis(indices, tuple(sorted(choices) if are_numbers(choices) else choices))


@dataclass(frozen=True)
class Encoding:
    """The hyperparameters of a space in order: a point is a row of coordinates, nan where it lacks one."""

    space: Space
    axes: Mapping[str, Axis]

    @classmethod
    def from_space(cls, space: Space) -> Encoding:
        """Of a flat space from one point; of a conditional one from samples."""
        found: dict[str, list[BaseDistribution]] = {}
        for number in range(100 if space.is_conditional else 1):
            with contextlib.suppress(InvalidPoint):
                sample = optuna_point(space, space.draw((0, number)))
                for name, distribution in sample.distributions.items():
                    found.setdefault(name, []).append(distribution)
        return cls(space, {name: axis_of(each) for name, each in found.items()})

    def coordinates(self, point: Point) -> Array:
        """[hyperparameters] of a point; one that the samples lack is left out.

        Raises:
            LookupError: the point is of another space.
        """
        return self.row(self.space.names(point))

    def row(self, values: Mapping[str, Any]) -> Array:
        """The same of its values, by the names that the space suggests."""
        row = np.full(len(self.axes), math.nan)
        for place, (name, axis) in enumerate(self.axes.items()):
            if name in values:
                with contextlib.suppress(ValueError):  # of a space that was changed with --force
                    row[place] = axis.coordinate(values[name])
        return row

    def features(self, coordinates: Array) -> Array:
        """[points, columns] for a model."""
        columns = [
            axis.features(column) for axis, column in zip(self.axes.values(), coordinates.T, strict=True)
        ]
        return np.concatenate(columns, axis=1)

    def grid(self) -> Array:
        """[points, hyperparameters], all points of a finite space."""
        return self._stacked(map(self.coordinates, self.space.grid()))

    def drawn(self, generator: np.random.Generator, size: int) -> Array:
        """[size, hyperparameters], random points; of a conditional space some of its samples, as it takes
        long to ask a `suggest`."""
        if self.space.is_conditional:
            return self._samples[generator.integers(len(self._samples), size=size)]
        return np.stack([axis.drawn(generator, size) for axis in self.axes.values()], axis=1)

    def near(
        self, coordinates: Array, generator: np.random.Generator, spreads: Sequence[float] = (0.05, 0.1, 0.2)
    ) -> Array:
        """At most one point near each: about half of the hyperparameters moved, by about one of `spreads`."""
        size = len(coordinates)
        spread = generator.choice(spreads, size=size)
        columns = zip(self.axes.values(), coordinates.T, strict=True)
        others = np.stack([axis.moved(column, spread, generator) for axis, column in columns], axis=1)
        is_moved = (generator.random(others.shape) < 0.5) & ~np.isnan(coordinates)
        near = np.where(is_moved, others, coordinates)
        return self._points(near, generator) if self.space.is_conditional else near

    def point(self, coordinates: Array, generator: np.random.Generator) -> Point:
        """The point at coordinates; a hyperparameter that they lack is random.

        Raises:
            InvalidPoint: they are not a point of the space.
        """
        given = zip(self.axes.items(), coordinates, strict=True)
        values = {name: axis.value(each) for (name, axis), each in given if not math.isnan(each)}
        return self.space.suggest(_Answers(values, generator))

    @cached_property
    def _samples(self) -> Array:
        """[points, hyperparameters], 1000 random points of a conditional space."""
        return self._points(np.full((1000, len(self.axes)), math.nan), np.random.default_rng(0))

    def _points(self, coordinates: Array, generator: np.random.Generator) -> Array:
        """Coordinates of the points at such coordinates, as each branch has hyperparameters and ranges of its
        own; without those that are no point."""
        found = []
        for row in coordinates:
            with contextlib.suppress(InvalidPoint):
                found.append(self.coordinates(self.point(row, generator)))
        return self._stacked(found)

    def _stacked(self, rows: Iterable[Array]) -> Array:
        return np.reshape([*rows], (-1, len(self.axes)))


class _Answers(TrialProxy):
    """A trial that suggests given values, as near as the range asked for allows, and else random ones."""

    def __init__(self, values: Mapping[str, Any], generator: np.random.Generator) -> None:
        self._values = values
        self._generator = generator

    def _number(self, name: str, asked: Range) -> float:
        axis = Axis(asked)
        if (value := self._values.get(name)) is None:
            position = axis.drawn(self._generator, 1)[0]
        else:
            position = axis.coordinate(min(max(value, asked.low), asked.high))
        number = axis.value(position)
        return round(number) if asked.is_whole else float(number)

    def _choice(self, name: str, choices: Sequence[Any]) -> Any:
        if name in self._values and self._values[name] in choices:
            return self._values[name]
        return choices[int(self._generator.integers(len(choices)))]
