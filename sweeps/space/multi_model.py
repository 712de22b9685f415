"""The search space of several models: one space each, and which model is tried."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeps.common.yaml_values import ParamValue
from sweeps.space import conditional, flat
from sweeps.space.numeric_range import Range
from sweeps.space.point import Point, Space, Suggests, TrialProxy, suggested

OneSpace = flat.FlatSpace | conditional.ConditionalSpace
"""The space of one model."""


@dataclass(frozen=True)
class SeveralSpaces(Space):
    """The spaces of several models: first which model, then its point.

    Hyperparameters of the same name mean different things in different models, so Optuna has each as
    `MODEL.HYPERPARAMETER`.
    """

    spaces: Mapping[str, OneSpace]

    is_conditional = True

    @property
    def dimensions(self) -> int:
        return 1 + max(each.dimensions for each in self.spaces.values())

    def draw(self, seeds: tuple[int, ...]) -> Point:
        """A point of one of the models, all equally likely."""
        # A stream of its own: the choice of the model is independent of the values from the same seeds.
        generator = np.random.default_rng(np.random.SeedSequence(seeds, spawn_key=(1,)))
        return list(self.spaces.values())[generator.integers(len(self.spaces))].draw(seeds)

    def grid(self) -> Iterator[Point]:
        return itertools.chain.from_iterable(each.grid() for each in self.spaces.values())

    def size(self) -> float:
        return sum(each.size() for each in self.spaces.values())

    def suggest(self, trial: Suggests) -> Point:
        name = trial.suggest_categorical("trainable", list(self.spaces))
        return self.spaces[name].suggest(_Prefixed(trial, f"{name}."))

    def with_values_of(self, point: Point) -> Point:
        return self.spaces[point.trainable].with_values_of(point)

    def names(self, point: Point) -> dict[str, ParamValue]:
        of_model = self.spaces[point.trainable].names(point)
        prefixed = {f"{point.trainable}.{name}": value for name, value in of_model.items()}
        return {"trainable": point.trainable, **prefixed}


class _Prefixed(TrialProxy):
    """A trial whose hyperparameter names all get a prefix."""

    def __init__(self, trial: Suggests, prefix: str) -> None:
        self._trial = trial
        self._prefix = prefix

    def _number(self, name: str, asked: Range) -> float:
        return suggested(self._trial, self._prefix + name, asked)

    def _choice(self, name: str, choices: Sequence[Any]) -> Any:
        return self._trial.suggest_categorical(self._prefix + name, choices)
