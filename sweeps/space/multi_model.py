"""The search space of several models: one space each, and which model is tried."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeps.common.yaml_values import ParamValue
from sweeps.space import conditional, flat
from sweeps.space.point import Point, Suggests

OneSpace = flat.FlatSpace | conditional.ConditionalSpace
"""What is tried of one model."""


@dataclass(frozen=True)
class SeveralSpaces:
    """The spaces of several models: first which model, then its point.

    Hyperparameters of the same name mean different things in different models, so Optuna is told of each as
    `MODEL.HYPERPARAMETER`.
    """

    spaces: Mapping[str, OneSpace]

    is_conditional = True

    @property
    def dimensions(self) -> int:
        return 1 + max(each.dimensions for each in self.spaces.values())

    def draw(self, seeds: tuple[int, ...]) -> Point:
        """A point of one of the models, each as likely."""
        # A stream of its own: the choice must tell nothing of the values that the same seeds draw.
        generator = np.random.default_rng(np.random.SeedSequence(seeds, spawn_key=(1,)))
        return list(self.spaces.values())[generator.integers(len(self.spaces))].draw(seeds)

    def grid(self) -> Iterator[Point]:
        """The grids one after another."""
        return itertools.chain.from_iterable(each.grid() for each in self.spaces.values())

    def size(self) -> float:
        return sum(each.size() for each in self.spaces.values())

    def suggest(self, trial: Suggests) -> Point:
        """The model that a trial suggests, and the point that it suggests of that one."""
        name = trial.suggest_categorical("trainable", list(self.spaces))
        return self.spaces[name].suggest(_Prefixed(trial, f"{name}."))

    def names(self, point: Point) -> dict[str, ParamValue]:
        """The model, and its hyperparameters with its name before them."""
        of_model = self.spaces[point.trainable].names(point)
        return {
            "trainable": point.trainable,
            **{f"{point.trainable}.{name}": value for name, value in of_model.items()},
        }


class _Prefixed:
    """A trial that is asked for the hyperparameters of one model."""

    def __init__(self, trial: Suggests, prefix: str) -> None:
        self._trial = trial
        self._prefix = prefix

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        return self._trial.suggest_float(self._prefix + name, low, high, step=step, log=log)

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        return self._trial.suggest_int(self._prefix + name, low, high, step=step, log=log)

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        return self._trial.suggest_categorical(self._prefix + name, choices)
