"""The objective of a sweep or a run: one logged metric, to minimize or to maximize."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
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
