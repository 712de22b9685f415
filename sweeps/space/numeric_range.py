"""The range of a hyperparameter on its own scale: where in it values lie, and how it becomes narrower or
wider."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

Side = Literal["low", "high"]
WIDER = 0.25
"""Of a range, on its scale: how far it is widened at once."""
LEAST_MARGIN = 0.05
"""Of a range, on its scale: how much is left at least around the values that are kept."""

FEW_VALUES = 5
"""Of a fifth of 25 trials: from so few the best value lies outside their hull and one gap too often."""


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included."""

    low: float
    high: float
    is_log: bool = False
    step: float | None = None
    """None where it is continuous; 1 of whole numbers."""
    is_whole: bool = False

    @classmethod
    def of(cls, distribution: Any, step: float | None) -> Range:
        """Optuna's range of numbers; on a log scale the step is ours, Optuna has none there."""
        is_whole = isinstance(distribution, IntDistribution)
        return cls(distribution.low, distribution.high, distribution.log, step, is_whole)

    @property
    def count(self) -> int | None:
        """How many values there are; None where it is continuous."""
        return None if self.step is None else round((self.high - self.low) / self.step) + 1

    def values(self) -> list[float] | None:
        """All of them, in order; None where it is continuous."""
        if self.step is None or self.count is None:
            return None
        return [clean(self.low + number * self.step, self.step) for number in range(self.count)]

    def nearest(self, value: float) -> float:
        """The nearest value that lies on a step; the value itself where there are no steps."""
        if self.step is None:
            return value
        found = min(max(self.low, round(value / self.step) * self.step), self.high)
        return int(found) if self.is_whole else clean(found, self.step)

    def share(self, value: float) -> float:
        """Where a value lies: 0 at the low end, 1 at the high end."""
        low, high = self._bent(self.low), self._bent(self.high)
        return 0.5 if high == low else (self._bent(value) - low) / (high - low)

    def at(self, share: float) -> float:
        """The value that lies there; what is behind an end, too."""
        low, high = self._bent(self.low), self._bent(self.high)
        bent = low + share * (high - low)
        return math.exp(bent) if self.is_log else bent

    def around(self, values: Sequence[float]) -> Range:
        """The hull of some values and a margin: the mean gap between them, which is by how much the hull of
        a few draws falls short of the range that they are from; twice that where they are so few that they
        may lie on one side of the best value."""
        shares = sorted(self.share(value) for value in values)
        gap = (shares[-1] - shares[0]) / max(1, len(shares) - 1)
        margin = max(gap if len(shares) > FEW_VALUES else 2 * gap, LEAST_MARGIN)
        low, high = (self.at(min(1.0, max(0.0, end))) for end in (shares[0] - margin, shares[-1] + margin))
        return self._outward(low, high).within(self)

    def wider(self, side: Side) -> Range:
        """A quarter more on one side. It never crosses zero, and one that lies between 0 and 1 (a rate, a
        share) goes half of the way to 1 at most."""
        step = self.step or 0.0
        if side == "high":
            high = self.at(1 + WIDER) if self.is_log else max(self.at(1 + WIDER), self.high + step)
            if not self.is_log and not self.is_whole and self.low >= 0 and self.high <= 1:
                high = min(high, (self.high + 1) / 2)
            return replace(self._outward(self.low, high), low=self.low)
        low = self.at(-WIDER) if self.is_log else min(self.at(-WIDER), self.low - step)
        if self.low >= 0:
            low = max(low, min(1.0, self.low) if self.is_whole else 0.0)
        low = self._outward(low, self.high).low
        if self.is_whole and low <= 0 < self.low:
            low = min(self.low, step)
        return self if self.is_log and low <= 0 else replace(self, low=low)

    def beyond(self, share: float) -> float:
        """The value that lies there, in two digits, and on the same side of zero as the range."""
        value = self.at(share)
        if self.low >= 0:
            value = max(value, 0.0)
        return _rounded(
            value, math.ceil if share > 0 else math.floor, None if self.is_log else self.high - self.low
        )

    def cut(self, new: Range, side: Side, limit: float) -> Range:
        """A range of this scale without what lies behind a limit."""
        if self.step is not None:
            steps = limit / self.step
            limit = (math.floor(steps + 1e-9) if side == "high" else math.ceil(steps - 1e-9)) * self.step
            limit = round(limit) if self.is_whole else limit
        else:
            limit = float(f"{limit:.2g}")
        if side == "high":
            return replace(new, high=max(min(new.high, limit), new.low))
        return replace(new, low=min(max(new.low, limit), new.high))

    def within(self, other: Range) -> Range:
        """What of it lies in another, of which it keeps scale and steps; the other where nothing does."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return other if low > high else replace(other, low=low, high=high)

    def __str__(self) -> str:
        by = f" in steps of {self.step:g}" if self.step not in (None, 1) else ""
        return f"{self.low:g} to {self.high:g}{by}{', log scale' if self.is_log else ''}"

    def _bent(self, value: float) -> float:
        return math.log(value) if self.is_log else value

    def _outward(self, low: float, high: float) -> Range:
        """Two digits, or whole steps, which leave nothing out."""
        if self.step is None:
            width = None if self.is_log else high - low
            return replace(self, low=_rounded(low, math.floor, width), high=_rounded(high, math.ceil, width))
        low, high = (
            math.floor(low / self.step + 1e-9) * self.step,
            math.ceil(high / self.step - 1e-9) * self.step,
        )
        if self.is_whole:
            return replace(self, low=round(low), high=round(high))
        return replace(self, low=clean(low, self.step), high=clean(high, self.step))


def range_of(words: Iterable[BaseDistribution]) -> Range | None:
    """All that these distributions hold together, choices beside ranges too (of a grid that became one); None
    where they are choices alone."""
    found: list[Any] = list(words)
    ranges = [word for word in found if not isinstance(word, CategoricalDistribution)]
    if not ranges:
        return None
    points = [value for word in found if word not in ranges for value in word.choices]
    if any(isinstance(value, str | bool | None) for value in points):
        return None
    whole = Range.of(ranges[0], ranges[0].step)
    low = min([*points, *(word.low for word in ranges)])
    return replace(whole, low=low, high=max([*points, *(word.high for word in ranges)]))


def range_of_grid(values: Sequence[Any]) -> Range | None:
    """From the first to the last of a grid of fractions, continuous, on a log scale where its gaps grow;
    None of a grid of something else: 32, 64, 128 mean these three."""
    fractions = [value for value in values if isinstance(value, float)]
    if len(values) < 3 or not fractions or any(isinstance(v, bool | str) for v in values):
        return None
    ordered = sorted(float(value) for value in values)
    grows = ordered[0] > 0 and ordered[-1] - ordered[-2] > 1.5 * (ordered[1] - ordered[0])
    return Range(ordered[0], ordered[-1], is_log=grows)


def choices_of(words: Iterable[BaseDistribution]) -> list[Any]:
    """All choices that these distributions hold together, in their order; [] where one is a range."""
    found = [word.choices if isinstance(word, CategoricalDistribution) else () for word in words]
    if () in found:
        return []
    return list(dict.fromkeys(value for choices in found for value in choices))


def are_ordered(values: Sequence[Any]) -> bool:
    """Whether these are at least three numbers, each larger than the one before."""
    are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return are_numbers and len(values) >= 3 and list(values) == sorted(set(values))


def clean(value: float, step: float | None) -> Any:
    """0.30000000000000004 in steps of 0.1 is 0.3."""
    if step is None or isinstance(value, int):
        return value
    return round(value, max(0, 3 - math.floor(math.log10(step))))


def _rounded(value: float, to: Callable[[float], int], width: float | None) -> float:
    """Two digits: of the value, or of the range that it ends."""
    size = abs(value) if width is None else width
    if size == 0 or not math.isfinite(size):
        return value
    places = 1 - math.floor(math.log10(size))
    scaled = value * 10.0**places
    whole = round(scaled) if abs(scaled - round(scaled)) < 1e-6 else to(scaled)
    return round(whole / 10.0**places, max(places, 0))
