"""How long a sweep will still take, as a range: the rest of it is played many times over.

What is known stays: the trials that train or wait, their seconds per epoch, and how many trials the scheduler
lets train how far. What is not known is drawn anew in each play: how long the epochs of the trials to come
take, which trials fail, and who continues where the scheduler does not say it before. The constants were
chosen on one set of recorded sweeps and checked on another (`benchmarks/time_left.py`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from sweeps.analysis.course import Course
from sweeps.analysis.pace import Pace
from sweeps.analysis.standing import Ahead, Standing
from sweeps.record.ranking import RankedTrials

PLAYS = 100
HELD = 0.95
"""Share of the plays that a range holds, unless it would be too wide."""
ERROR = 0.15
"""Standard deviation of the logarithm of what no play knows of: a machine that is used by others, say."""
WIDEST = ((0.33, 1.5), (0.125, 2.0), (0.0, 3.0))
"""From this share of the sweep on, the upper end is at most so many times the lower one. That is to hold from
50 %, from 25 % and before, and the share follows from the best guess, which may be twice too high."""
LEAST_S = 0.1
TEST_SHARE = 0.6
"""The score on the test rows takes as much of the time in which a process starts."""


@dataclass(frozen=True)
class TimeLeft:
    """Seconds until a sweep ends."""

    best_s: float
    """The best guess."""
    low_s: float
    high_s: float

    def at_most(self, seconds: float) -> TimeLeft:
        """The same where the sweep is ended after so many seconds."""
        return TimeLeft(*(min(each, max(0.0, seconds)) for each in (self.best_s, self.low_s, self.high_s)))

    def later(self, seconds: float) -> TimeLeft:
        """The same, as much later."""
        return TimeLeft(*(max(0.0, each - seconds) for each in (self.best_s, self.low_s, self.high_s)))


def time_left(record: RankedTrials, ahead: Ahead, now: float, elapsed_s: float) -> TimeLeft | None:
    """The time left of a sweep that runs; None before its first epoch.

    Args:
        record: of the sweep.
        ahead: what is known of the rest.
        now: seconds since 1970.
        elapsed_s: how long the sweep has run.
    """
    standing = Standing(record, ahead, now)
    pace = Pace.of(record, standing.ranks, ahead.rungs)
    if pace is None:
        return None
    source = Random(0)  # the same luck each time, so that what is shown does not jump
    test_s = TEST_SHARE * pace.launch_s if ahead.is_scored else 0.0
    courses = [
        (Course(standing, pace, source).seconds() + test_s) * math.exp(source.gauss(0, ERROR))
        for _ in range(PLAYS)
    ]
    return range_of(courses, elapsed_s)


def range_of(courses: Sequence[float], elapsed_s: float) -> TimeLeft:
    """The median of the courses, and a range around it that holds most of them, unless it would be too wide.

    Args:
        courses: seconds left in each play.
        elapsed_s: how long the sweep has run.
    """
    logs = sorted(math.log(max(LEAST_S, seconds)) for seconds in courses)
    best, beyond = statistics.median(logs), int(len(logs) * (1 - HELD) / 2)
    low, high = logs[beyond], logs[-1 - beyond]
    share = elapsed_s / (elapsed_s + math.exp(best))
    widest = math.log(next(ratio for least, ratio in WIDEST if share >= least))
    if high - low > widest:
        low, high = best - widest / 2, best + widest / 2
    return TimeLeft(math.exp(best), math.exp(low), math.exp(high))
