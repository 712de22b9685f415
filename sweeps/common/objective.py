"""The objectives of a sweep, each a logged metric to minimize or to maximize; a single run has one."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

Mode = Literal["min", "max"]
T = TypeVar("T")


@dataclass(frozen=True)
class Objective:
    """A metric, and whether a small or a large value of it is better."""

    metric: str
    """Name under which the model logs it."""
    mode: Mode

    @property
    def sign(self) -> int:
        """1 where a large value is better, else -1: a better score has a larger `sign * score`."""
        return 1 if self.mode == "max" else -1

    @property
    def direction(self) -> Literal["minimize", "maximize"]:
        """The mode in Optuna's words."""
        return "maximize" if self.mode == "max" else "minimize"

    def is_better(self, score: float | None, than: float | None) -> bool:
        """Whether a score is finite and better than another, or the other is nan or None."""
        if score is None or not math.isfinite(score):
            return False
        return than is None or math.isnan(than) or self.sign * score > self.sign * than

    def best(self, items: Iterable[T], score: Callable[[T], float | None]) -> T | None:
        """The first of the items with the best finite score; None where none has one."""
        sign, scored = self.sign, ((item, score(item)) for item in items)
        finite = [
            (sign * value, item) for item, value in scored if value is not None and math.isfinite(value)
        ]
        return max(finite, key=operator.itemgetter(0))[1] if finite else None


Losses = tuple[float, ...]
"""By how much the constraints are missed, 0 where they are met; then a number for each objective. Smaller is
better."""
RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}
MODES: tuple[Mode, ...] = ("min", "max")
MOST_OBJECTIVES = 3
"""With more, almost no trial is dominated by another."""


@dataclass(frozen=True)
class Constraint:
    """A bound that a metric must keep."""

    metric: str
    relation: str
    """One of RELATIONS."""
    bound: float

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """`params_m<=5`.

        Raises:
            ValueError: it is none.
        """
        found = re.fullmatch(r"\s*([^\s<>=]+)\s*(<=|>=|<|>)\s*(\S+)\s*", text)
        if found is None or not math.isfinite(bound := float(found[3])):
            raise ValueError(f"{text!r} is no constraint")
        return cls(found[1], found[2], bound)

    def excess(self, metrics: Mapping[str, float]) -> float:
        """By how much a value misses it, in units of the bound; 0 where it is met, infinite where there is no
        finite value."""
        value = metrics.get(self.metric, math.nan)
        if not math.isfinite(value):
            return math.inf
        if RELATIONS[self.relation](value, self.bound):
            return 0.0
        # Above 0 also at a bound that it must not reach.
        return max(abs(value - self.bound) / (abs(self.bound) or 1.0), 1e-9)

    def __str__(self) -> str:
        is_short = float(text := f"{self.bound:g}") == self.bound
        return f"{self.metric}{self.relation}{text if is_short else self.bound}"


@dataclass(frozen=True)
class Objectives:
    """What trials are judged by: one metric, or two or three that are weighed against each other.

    The first one decides which epoch of a trial counts, and whose weights are kept.
    """

    every: tuple[Objective, ...]
    constraints: tuple[Constraint, ...] = ()
    """That a trial must meet to be one of the best."""

    @classmethod
    def parse(
        cls, metrics: Sequence[str], mode: Mode | None = None, constraints: Sequence[str] = ()
    ) -> Objectives:
        """Those of a plan: a metric with its mode, or several, each as `val_acc:max`; and constraints, each
        as `params_m<=5`."""
        met = tuple(map(Constraint.parse, constraints))
        if mode is not None:
            return cls((Objective(metrics[0], mode),), met)
        every = (Objective(name, "min" if of == "min" else "max") for name, of in map(split, metrics))
        return cls(tuple(every), met)

    @property
    def first(self) -> Objective:
        return self.every[0]

    @property
    def are_several(self) -> bool:
        return len(self.every) > 1

    @property
    def metrics(self) -> list[str]:
        """Their names."""
        return [each.metric for each in self.every]

    @property
    def others(self) -> list[str]:
        """Metrics that each epoch must have, beside that of the first one."""
        needed = dict.fromkeys([*self.metrics, *(each.metric for each in self.constraints)])
        return [name for name in needed if name != self.first.metric]

    def values(self, score: float, metrics: Mapping[str, float]) -> tuple[float, ...]:
        """The value of each at an epoch; nan of a metric that was not logged."""
        return (score, *(metrics.get(each.metric, math.nan) for each in self.every[1:]))

    def losses(self, score: float, metrics: Mapping[str, float]) -> Losses:
        """By which trials are ordered at an epoch; as `values`."""
        values = zip(self.every, self.values(score, metrics), strict=True)
        missed = 0.0
        if self.constraints:
            known = {**metrics, self.first.metric: score}
            missed = math.fsum(each.excess(known) for each in self.constraints)
        return missed, *(-each.sign * value for each, value in values)

    def __str__(self) -> str:
        aims = ", ".join(f"{each.metric} ({each.mode})" for each in self.every)
        return " with ".join([aims, *([", ".join(map(str, self.constraints))] if self.constraints else [])])


def split(text: str) -> tuple[str, str]:
    """Metric and mode of `val_acc:max`; the mode is "" where none is given."""
    name, _, mode = text.rpartition(":")
    return (name, mode) if name and mode in MODES else (text, "")
