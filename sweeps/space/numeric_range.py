"""The range of a hyperparameter on its own scale: positions in it, and how it becomes narrower or wider."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sweeps.common.yaml_values import is_number

Array = npt.NDArray[np.float64]
Side = Literal["low", "high"]


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included."""

    low: float
    high: float
    is_log: bool = False
    step: float | None = None
    """None where it is continuous; 1 of whole numbers. Steps are counted from the low end."""
    is_whole: bool = False

    @property
    def count(self) -> int | None:
        """Number of values; None where it is continuous."""
        return None if self.step is None else round((self.high - self.low) / self.step) + 1

    def values(self) -> list[float] | None:
        """All values, in order; None where it is continuous."""
        if self.step is None or self.count is None:
            return None
        return [clean(self.low + number * self.step, self.step) for number in range(self.count)]

    def nearest(self, value: float) -> float:
        """The nearest value of the range, without a rounding error."""
        within = min(max(value, self.low), self.high)
        if self.step is None:
            return within
        first = self.low - round(self.low / self.step) * self.step  # 0, where the low end is a multiple
        found = min(first + round((within - first) / self.step) * self.step, self.high)
        return round(found) if self.is_whole else float(clean(found, self.step))

    def stepped(self, numbers: Any) -> Array:
        """The nearest numbers of the range."""
        if self.step is not None:
            numbers = self.low + np.rint((numbers - self.low) / self.step) * self.step
        return clip(self.low, self.high, numbers)

    def share(self, numbers: Any) -> Any:
        """Position of a number, or of an array, on the scale: 0 is the low end, 1 the high end."""
        low, high = self._ends()
        return (self._scaled(numbers) - low) / (high - low or 1)

    def at(self, shares: Any) -> Any:
        """The number at a position, or those of an array, below 0 and above 1 too."""
        low, high = self._ends()
        found = low + shares * (high - low)
        return np.exp(found) if self.is_log else found

    def _ends(self) -> tuple[float, float]:
        """On the scale."""
        return float(self._scaled(self.low)), float(self._scaled(self.high))

    def _scaled(self, numbers: Any) -> Any:
        return np.log(numbers) if self.is_log else numbers

    def around(self, values: Sequence[float]) -> Range:
        """The hull of some values and a margin: the mean gap between them, by which the hull of a few random
        values falls short of their range; twice that of at most 5, a fifth of 25 trials, where the best value
        lies too often outside their hull and one gap; at least a twentieth of the range on its scale."""
        shares = sorted(self.share(value) for value in values)
        gap = (shares[-1] - shares[0]) / max(1, len(shares) - 1)
        margin = max(gap if len(shares) > 5 else 2 * gap, 0.05)
        low, high = (self.at(min(1.0, max(0.0, end))) for end in (shares[0] - margin, shares[-1] + margin))
        outward = self._outward(low, high)
        low, high = max(outward.low, self.low), min(outward.high, self.high)
        return self if low > high else replace(self, low=low, high=high)

    def wider(self, side: Side) -> Range:
        """A quarter more on one side, never across zero. A range of fractions between 0 and 1 (a rate, a
        share) is widened at most half of the way to 1."""
        step = self.step or 0.0
        if side == "high":
            high = self.at(1.25)
            high = high if self.is_log else max(high, self.high + step)
            if not self.is_log and not self.is_whole and self.low >= 0 and self.high <= 1:
                high = min(high, (self.high + 1) / 2)
            return replace(self._outward(self.low, high), low=self.low)
        low = self.at(-0.25) if self.is_log else min(self.at(-0.25), self.low - step)
        if self.low >= 0:
            low = max(low, min(1.0, self.low) if self.is_whole else 0.0)
        low = self._outward(low, self.high).low
        if self.is_whole and low <= 0 < self.low:
            low = min(self.low, step)
        return self if self.is_log and low <= 0 else replace(self, low=low)

    def beyond(self, share: float) -> float:
        """The value at a position outside, in two digits, on the same side of zero as the range."""
        value = self.at(share) if self.low < 0 else max(self.at(share), 0.0)
        width = None if self.is_log else self.high - self.low
        return _rounded(value, math.ceil if share > 0 else math.floor, width)

    def __str__(self) -> str:
        by = "" if self.step is None or self.step == 1 else f" in steps of {in_full(self.step)}"
        return f"{in_full(self.low)} to {in_full(self.high)}{by}{', log scale' if self.is_log else ''}"

    def _outward(self, low: float, high: float) -> Range:
        """This scale from `low` to `high`, each rounded outward to two digits or to a step."""
        if self.step is None:
            width = None if self.is_log else high - low
            return replace(self, low=_rounded(low, math.floor, width), high=_rounded(high, math.ceil, width))
        low = math.floor(low / self.step + 1e-9) * self.step
        high = math.ceil(high / self.step - 1e-9) * self.step
        if self.is_whole:
            return replace(self, low=round(low), high=round(high))
        return replace(self, low=clean(low, self.step), high=clean(high, self.step))


def range_of_grid(values: Sequence[Any]) -> Range | None:
    """The continuous range of a grid of fractions, on a log scale where its gaps grow; None of another grid:
    32, 64, 128 mean these three."""
    fractions = [value for value in values if isinstance(value, float)]
    if len(values) < 3 or not fractions or not are_numbers(values):
        return None
    ordered = sorted(float(value) for value in values)
    grows = ordered[0] > 0 and ordered[-1] - ordered[-2] > 1.5 * (ordered[1] - ordered[0])
    return Range(ordered[0], ordered[-1], is_log=grows)


def are_numbers(values: Sequence[Any]) -> bool:
    """Whether each is a finite number; true is none."""
    return all(map(is_number, values))


def are_ordered(values: Sequence[Any]) -> bool:
    """Whether these are at least three numbers in increasing order."""
    return len(values) >= 3 and are_numbers(values) and list(values) == sorted(set(values))


def in_full(number: float) -> str:
    """A number as it can be typed again: 1e-05, but 1048576 and 0.1234567 with all their digits. A rounding
    error is left out."""
    text = f"{number:g}"
    is_all = not isinstance(number, int) and math.isclose(float(text), number, rel_tol=1e-12)
    return text if is_all else str(number)


def clean(value: float, step: float | None) -> Any:
    """A value without its rounding error: 0.30000000000000004 in steps of 0.1 is 0.3."""
    if step is None or isinstance(value, int):
        return value
    # To 10 digits of the step: Optuna takes no value that is further from a step of its own. And to 15 digits
    # of the value, of which a float has no more.
    places = 9 - math.floor(math.log10(step))
    if value:
        places = min(places, 14 - math.floor(math.log10(abs(value))))
    return round(value, max(0, places))


def clip(low: float, high: float, numbers: Any) -> Array:
    """As `np.clip`, which takes four times as long for one number."""
    found: Array = np.minimum(np.maximum(numbers, low), high)
    return found


def _rounded(value: float, to: Callable[[float], int], width: float | None) -> float:
    """A value in two digits, those of `width` where it is given, rounded by `to`."""
    size = abs(value) if width is None else width
    if size == 0 or not math.isfinite(size):
        return value
    places = 1 - math.floor(math.log10(size))
    scaled = value * 10.0**places
    whole = round(scaled) if abs(scaled - round(scaled)) < 1e-6 else to(scaled)
    return round(whole / 10.0**places, max(places, 0))
