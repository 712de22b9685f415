"""What a search space is to a searcher, and the points that it holds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from sweeps.common.yaml_values import ParamValue
from sweeps.space.numeric_range import Range

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import BaseTrial

Suggests: TypeAlias = "BaseTrial | TrialProxy"
"""What a space asks for values: a trial of Optuna, or one of this program."""


@dataclass(frozen=True)
class Point:
    """All that a trial trains with."""

    trainable: str
    """Its name, as it was given to the sweep."""
    params: Mapping[str, ParamValue]
    """Swept hyperparameters."""
    fixed: Mapping[str, ParamValue] = field(default_factory=dict)
    """Fixed hyperparameters. One that is in neither has the default of Params."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Trainable and swept values, hashable: points of one space with the same key are the same point."""
        return (self.trainable, *sorted(self.params.items()))

    @property
    def whole(self) -> tuple[Any, ...]:
        """The key with the fixed values, to compare points of different sweeps."""
        return (self.trainable, *sorted({**self.fixed, **self.params}.items()))


@dataclass(frozen=True)
class OptunaPoint:
    """A point as Optuna stores it, without the hyperparameters that have no Optuna distribution."""

    params: Mapping[str, ParamValue] = field(default_factory=dict)
    distributions: Mapping[str, BaseDistribution] = field(default_factory=dict)


class TrialProxy(ABC):
    """The three `suggest` methods of an Optuna trial, passed on as a range or as choices."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        return float(self._number(name, Range(low, high, log, step)))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        return int(self._number(name, Range(low, high, log, step, is_whole=True)))

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        return self._choice(name, choices)

    @abstractmethod
    def _number(self, name: str, asked: Range) -> float:
        """Answer with a number of the range."""

    @abstractmethod
    def _choice(self, name: str, choices: Sequence[Any]) -> Any:
        """Answer with one of the choices."""


def suggested(trial: Suggests, name: str, asked: Range) -> float:
    """The number of a range that a trial suggests."""
    if asked.is_whole:
        step = 1 if asked.step is None else int(asked.step)
        return trial.suggest_int(name, int(asked.low), int(asked.high), step=step, log=asked.is_log)
    return trial.suggest_float(name, asked.low, asked.high, step=asked.step, log=asked.is_log)


class Space(ABC):
    """What searchers use of a space, whichever way it is written."""

    is_conditional: ClassVar[bool]
    """Whether points differ in which hyperparameters they have."""

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """Most hyperparameters that a point has."""

    @abstractmethod
    def draw(self, seeds: tuple[int, ...]) -> Point:
        """One random point; the same seeds draw the same point.

        Raises:
            InvalidPoint: the drawn values are not a point of the space.
        """

    @abstractmethod
    def suggest(self, trial: Suggests) -> Point:
        """The point of the values that a trial suggests.

        Raises:
            InvalidPoint: the values are not a point of the space.
        """

    def completed(self, point: Point, seeds: tuple[int, ...]) -> Point:
        """A point of suggested values, with random ones of the domains of which `suggest` knows none.

        Raises:
            InvalidPoint: as `draw`.
        """
        return point

    def grid(self) -> Iterator[Point]:
        """Every point of a finite space; none where points can't be listed."""
        return iter(())

    def size(self) -> float:
        """Number of points; infinite where they can't be listed."""
        return math.inf

    @abstractmethod
    def with_values_of(self, point: Point) -> Point:
        """The point of this space with the values of one of another space, those that are fixed there too.

        Raises:
            LookupError, ValueError: it lacks one, or one does not fit the type. Whether its values lie in the
                ranges is not checked.
        """

    def names(self, point: Point) -> dict[str, ParamValue]:
        """A point's hyperparameters by the names that `suggest` asks for.

        Raises:
            KeyError: the point is of another space.
        """
        return dict(point.params)


class InvalidPoint(ValueError):
    """Values that are not a point of a space. `faults` holds the reason by hyperparameter."""

    def __init__(self, faults: Mapping[str, str]) -> None:
        super().__init__("; ".join(faults.values()))
        self.faults = faults
