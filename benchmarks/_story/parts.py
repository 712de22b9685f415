"""The time of a whole sweep from parts of it: measured in full, or measured a few times and multiplied.

The figure of a part is its median times how often it happens. Its 95 % interval is that of the mean by
Student's t, which needs three values; the intervals of several parts are independent of one another.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

SHARE = 0.95
"""Of an interval."""
LEAST_VALUES = 3
"""For an interval."""


class Interval(NamedTuple):
    """A figure and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Part:
    """Something that happens so many times in a sweep, of which some were timed."""

    name: str
    times: int
    seconds: Sequence[float]
    """Of each one that was timed; of what happens once, of each repeat."""

    def __post_init__(self) -> None:
        if not self.seconds:
            raise ValueError(f"part {self.name}: it was never timed")

    @property
    def is_measured(self) -> bool:
        """Whether all of it was timed."""
        return len(self.seconds) >= self.times

    @property
    def value_s(self) -> float:
        """All times together."""
        if self.times > 1 and self.is_measured:
            return self.times * statistics.fmean(self.seconds)
        return self.times * statistics.median(self.seconds)

    @property
    def half_width_s(self) -> float | None:
        """Of the interval; None where too few were timed."""
        if (count := len(self.seconds)) < LEAST_VALUES:
            return None
        from scipy.stats import t  # here: it takes a second, and --help needs none

        quantile = float(t.ppf((1 + SHARE) / 2, count - 1))
        return self.times * quantile * statistics.stdev(self.seconds) / math.sqrt(count)


@dataclass(frozen=True)
class Quality:
    """Accuracy on rows that were not trained on."""

    val: float
    """Of the winner, by which it was chosen."""
    val_rows: int
    test: float | None = None
    """On rows by which nothing was chosen; None: not scored."""
    test_rows: int = 0
    borrowed_from: str = ""
    """The sweep that found it, where that is another one over the same configurations."""

    @property
    def val_error(self) -> float:
        """Standard error of `val`."""
        return standard_error(self.val, self.val_rows)

    @property
    def test_error(self) -> float | None:
        return None if self.test is None else standard_error(self.test, self.test_rows)

    def is_worse_than(self, other: Quality) -> bool:
        """Whether it is behind by more than chance, on test rows where both have such a score."""
        if self.test is not None and other.test is not None:
            gap = other.test - self.test
            error = math.hypot(self.test_error or 0.0, other.test_error or 0.0)
        else:
            gap, error = other.val - self.val, math.hypot(self.val_error, other.val_error)
        return gap > statistics.NormalDist().inv_cdf((1 + SHARE) / 2) * error


def standard_error(share: float, rows: int) -> float:
    """Of a share of so many rows."""
    return math.sqrt(share * (1 - share) / rows)


@dataclass(frozen=True)
class Rung:
    """A way to do the whole sweep, and what it takes."""

    name: str
    parts: Sequence[Part]
    quality: Quality
    note: str = ""

    @property
    def total_s(self) -> Interval:
        """The whole sweep; the interval is as wide as those of its parts that have one."""
        value = math.fsum(part.value_s for part in self.parts)
        half = math.hypot(*(part.half_width_s or 0.0 for part in self.parts))
        return Interval(value, max(0.0, value - half), value + half)

    @property
    def measured_pct(self) -> float:
        """How much of the time was measured; the rest is computed."""
        measured = math.fsum(part.value_s * min(1.0, len(part.seconds) / part.times) for part in self.parts)
        return 100 * measured / self.total_s.value

    def times_as_fast_as(self, first: Rung) -> Interval:
        """The ratio of the totals; its ends by the relative widths of both."""
        ours, theirs = self.total_s, first.total_s
        ratio = theirs.value / ours.value
        relative = math.hypot(
            (ours.high - ours.value) / ours.value, (theirs.high - theirs.value) / theirs.value
        )
        return Interval(ratio, ratio / (1 + relative), ratio * (1 + relative))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Rung:
        parts = [Part(**part) for part in told["parts"]]
        return cls(told["name"], parts, Quality(**told["quality"]), told["note"])
