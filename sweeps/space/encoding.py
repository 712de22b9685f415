"""Points of a space as rows of numbers, for models that need them, and back."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from optuna.distributions import BaseDistribution, CategoricalDistribution

from sweeps.space.point import InvalidPoint, Point, Space, TrialProxy
from sweeps.space.replay import optuna_point

Array = npt.NDArray[np.float64]
FIRST_SAMPLES = 100
"""Points of a conditional space by which its hyperparameters are known."""
SAMPLES = 1000
"""Random points of a conditional space."""


@dataclass(frozen=True)
class Axis:
    """One hyperparameter. Its coordinate is the position in the range, 0 to 1 on its scale; of a choice of
    numbers the position in their order, 0 to 1; of another choice its index."""

    low: float = 0.0
    high: float = 1.0
    is_log: bool = False
    step: float | None = None
    choices: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, distributions: Sequence[BaseDistribution]) -> Axis:
        """Of all distributions that a hyperparameter had in samples of its space."""
        first: Any = distributions[0]
        if isinstance(first, CategoricalDistribution):
            return cls(choices=first.choices)
        several: Sequence[Any] = distributions
        low, high = min(each.low for each in several), max(each.high for each in several)
        return cls(low, high, first.log, first.step)

    @property
    def is_ordered(self) -> bool:
        """Whether values between two others are between them in effect, as far as can be known."""
        return self.choices is None or _are_numbers(self.choices)

    @property
    def columns(self) -> int:
        """Of a row for the model."""
        return 1 if self.is_ordered else len(self.choices or ())

    @property
    def _gaps(self) -> int:
        """Between the choices."""
        return max(1, len(self.choices or ()) - 1)

    def coordinate(self, value: Any) -> float:
        """Of one value.

        Raises:
            ValueError: it is not a value of this hyperparameter.
        """
        if self.choices is None:
            return float(self._positions(float(value)))
        if self.is_ordered:
            return sorted(self.choices).index(value) / self._gaps
        return float(self.choices.index(value))

    def drawn(self, generator: np.random.Generator, size: int) -> Array:
        """Random coordinates, the ends as likely as the values between them."""
        shares = generator.random(size)
        if self.choices is not None:
            return np.floor(shares * len(self.choices)) / (self._gaps if self.is_ordered else 1)
        if self.step is None:
            return shares
        low, high = self._scaled(self.low - self.step / 2), self._scaled(self.high + self.step / 2)
        return self._positions(self._stepped(self._unscaled(low + shares * (high - low))))

    def near(self, coordinates: Array, spread: Array, generator: np.random.Generator) -> Array:
        """Coordinates moved by about the spread, of the whole range; of an unordered choice any other."""
        if not self.is_ordered:
            return self.drawn(generator, len(coordinates))
        return self.snapped(np.clip(coordinates + spread * generator.standard_normal(len(coordinates)), 0, 1))

    def snapped(self, coordinates: Array) -> Array:
        """The nearest coordinates that values have."""
        if self.choices is None:
            return coordinates if self.step is None else self._positions(self._numbers(coordinates))
        if not self.is_ordered:
            return np.minimum(np.floor(coordinates), self.columns - 1)
        return np.rint(coordinates * self._gaps) / self._gaps

    def value(self, coordinate: float) -> Any:
        """The value at a coordinate, before the space brings it into its own range and type."""
        if self.choices is None:
            return float(self._numbers(coordinate))
        if self.is_ordered:
            return sorted(self.choices)[round(coordinate * self._gaps)]
        return self.choices[int(coordinate)]

    def features(self, coordinates: Array) -> Array:
        """[points, columns] for the model; a point without this hyperparameter (nan) is in the middle."""
        if self.is_ordered:
            return np.nan_to_num(coordinates, nan=0.5)[:, None]
        one_hot: Array = (coordinates[:, None] == np.arange(self.columns)).astype(np.float64)
        one_hot[np.isnan(coordinates)] = 1 / self.columns
        return one_hot

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """Of the range, on its scale."""
        return float(self._scaled(self.low)), float(self._scaled(self.high))

    def _numbers(self, positions: Array | float) -> Array:
        low, high = self._ends
        return self._stepped(self._unscaled(low + positions * (high - low)))

    def _positions(self, numbers: Array | float) -> Array:
        low, high = self._ends
        return _within(0, 1, (self._scaled(numbers) - low) / (high - low or 1))

    def _scaled(self, numbers: Any) -> Any:
        return np.log(numbers) if self.is_log else numbers

    def _unscaled(self, numbers: Any) -> Any:
        return np.exp(numbers) if self.is_log else numbers

    def _stepped(self, numbers: Any) -> Array:
        """The nearest numbers of the range."""
        if self.step is not None:
            numbers = self.low + np.rint((numbers - self.low) / self.step) * self.step
        return _within(self.low, self.high, numbers)


def _within(low: float, high: float, numbers: Any) -> Array:
    """As `np.clip`, which takes four times as long for one number."""
    least: Array = np.minimum(np.maximum(numbers, low), high)
    return least


def _are_numbers(choices: Sequence[Any]) -> bool:
    return all(isinstance(each, int | float) and not isinstance(each, bool) for each in choices)


@dataclass(frozen=True)
class Encoding:
    """The hyperparameters of a space in order: a point is a row of coordinates, nan where it lacks one."""

    space: Space
    axes: Mapping[str, Axis]

    @classmethod
    def of(cls, space: Space) -> Encoding:
        """Of a flat space from one point; of a conditional one from samples."""
        found: dict[str, list[BaseDistribution]] = {}
        for number in range(FIRST_SAMPLES if space.is_conditional else 1):
            with contextlib.suppress(InvalidPoint):
                sample = optuna_point(space, space.draw((0, number)))
                for name, distribution in sample.distributions.items():
                    found.setdefault(name, []).append(distribution)
        return cls(space, {name: Axis.of(each) for name, each in found.items()})

    def coordinates(self, point: Point) -> Array:
        """[hyperparameters] of a point; one that the samples lack is left out.

        Raises:
            LookupError: the point is of another space.
        """
        row, values = np.full(len(self.axes), math.nan), self.space.names(point)
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

    def near(self, coordinates: Array, generator: np.random.Generator) -> Array:
        """At most one point near each: about half of the hyperparameters moved, by a little or by more."""
        size = len(coordinates)
        spread = generator.choice([0.05, 0.1, 0.2], size=size)
        columns = zip(self.axes.values(), coordinates.T, strict=True)
        moved = np.stack([axis.near(column, spread, generator) for axis, column in columns], axis=1)
        is_moved = (generator.random(moved.shape) < 0.5) & ~np.isnan(coordinates)
        moved = np.where(is_moved, moved, coordinates)
        return self._points(moved, generator) if self.space.is_conditional else moved

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
        """[points, hyperparameters], random points of a conditional space."""
        return self._points(np.full((SAMPLES, len(self.axes)), math.nan), np.random.default_rng(0))

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

    def _ask(self, method: str, name: str, *arguments: Any, **options: Any) -> Any:
        if method == "suggest_categorical":
            choices = list(arguments[0])
            is_given = name in self._values and self._values[name] in choices
            return self._values[name] if is_given else choices[self._generator.integers(len(choices))]
        low, high = arguments
        axis = Axis(low, high, bool(options.get("log")), options.get("step"))
        if method == "suggest_int":
            axis = Axis(low, high, axis.is_log, axis.step or 1)
        value = self._values.get(name)
        position = (
            axis.drawn(self._generator, 1)[0]
            if value is None
            else axis.coordinate(min(max(value, low), high))
        )
        number = axis.value(position)
        return round(number) if method == "suggest_int" else number
