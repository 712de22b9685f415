"""What a search space is to a searcher, and what it gives: points."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sweeps.common.yaml_values import ParamValue

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


@dataclass(frozen=True)
class Point:
    """All that a trial trains with."""

    trainable: str
    """As it was named to the sweep."""
    params: Mapping[str, ParamValue]
    """Swept hyperparameters."""
    fixed: Mapping[str, ParamValue] = field(default_factory=dict)
    """Fixed hyperparameters. One that is in neither has the default of Params."""

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes it another point than others, as something that a set can hold."""
        return (self.trainable, *sorted(self.params.items()))

    @property
    def whole(self) -> tuple[Any, ...]:
        """All that a trial trains with: another sweep may have fixed other hyperparameters."""
        return (self.trainable, *sorted({**self.fixed, **self.params}.items()))


@dataclass(frozen=True)
class OptunaPoint:
    """A point in Optuna's words; a hyperparameter that Optuna has no word for is left out."""

    params: Mapping[str, ParamValue] = field(default_factory=dict)
    distributions: Mapping[str, BaseDistribution] = field(default_factory=dict)


class Suggests(Protocol):
    """What a space asks for values: a trial of Optuna's, or one of ours around it."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float: ...

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int: ...

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any: ...


class Space(Protocol):
    """What searchers know of a space, whichever way it is written."""

    @property
    def dimensions(self) -> int:
        """Hyperparameters of a point, at most."""

    @property
    def is_conditional(self) -> bool:
        """Whether points differ in which hyperparameters they have."""

    def draw(self, seeds: tuple[int, ...]) -> Point:
        """One random point; the same seeds draw the same point.

        Raises:
            InvalidPoint: the values that were drawn are none.
        """

    def grid(self) -> Iterator[Point]:
        """Every point of a finite space."""

    def size(self) -> float:
        """Number of points; infinite where they can't be listed."""

    def suggest(self, trial: Suggests) -> Point:
        """The point of the values that a trial suggests.

        Raises:
            InvalidPoint: these values are none.
        """

    def names(self, point: Point) -> dict[str, ParamValue]:
        """A point's hyperparameters by the names that `suggest` asks for.

        Raises:
            KeyError: the point is of another space.
        """


class InvalidPoint(ValueError):
    """Values that are no point of a space: what is at fault, to why."""

    def __init__(self, faults: Mapping[str, str]) -> None:
        super().__init__("; ".join(faults.values()))
        self.faults = faults


def optuna_point(space: Space, point: Point) -> OptunaPoint:
    """A point as Optuna is told of it: its values, asked for again.

    Raises:
        LookupError, ValueError: it is no point of this space.
    """
    # Here, not above: a trial's process knows points, and never Optuna.
    from optuna.trial import FixedTrial, TrialState, create_trial

    names = space.names(point)
    again = FixedTrial(dict(names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a value out of range: `create_trial` refuses it
        space.suggest(again)
    if again.params.keys() != names.keys():
        raise InvalidPoint(
            {name: f"{name}: no hyperparameter of this point" for name in names.keys() - again.params.keys()}
        )
    create_trial(state=TrialState.RUNNING, params=again.params, distributions=again.distributions)
    return OptunaPoint(again.params, again.distributions)
