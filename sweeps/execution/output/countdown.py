"""The time left of a sweep that runs, computed anew as often as that takes little of the driver's time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sweeps.analysis import time_left
from sweeps.analysis.standing import Ahead
from sweeps.analysis.time_left import TimeLeft
from sweeps.common.formatting import rough, rough_range
from sweeps.common.time_share import TimeShare
from sweeps.execution.run_context import RunContext
from sweeps.search import cohorts
from sweeps.search.cohorts import Cohort

SOON, MOST_SOON_S = "less than 1 s left", 10.0
"""What is said at the very end, for so long: a trial that hangs would be said to end soon for ever."""
COST_SHARE = 0.01
"""Of the driver's time, at most."""


class Countdown:
    """Tells the time left.

    Args:
        driver: of the sweep.
        slots: trials that may train now.
        clock: seconds, from any moment.
        estimate: as `time_left.time_left` is.
    """

    def __init__(
        self,
        driver: RunContext,
        slots: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
        estimate: Callable[..., TimeLeft | None] = time_left.time_left,
    ) -> None:
        self._driver, self._slots, self._clock, self._estimate = driver, slots, clock, estimate
        self._computing = TimeShare(COST_SHARE, least_s=0, clock=clock)
        self._found: TimeLeft | None = None
        self._found_at = 0.0
        self._soon_since: float | None = None
        self._waits = driver.plan.waits(driver.record)
        self._planned: Sequence[int] = ()
        self._ahead: Sequence[Cohort] = ()

    def __call__(self) -> TimeLeft | None:
        """The time left as of now; None before the first epoch."""
        now = self._clock()
        if self._computing.is_due():
            with self._computing.taken():
                self._found, self._found_at = self._compute(), now
        return None if self._found is None else self._found.later(now - self._found_at)

    def in_words(self) -> str:
        """`about 12 min left (9 to 16 min)`, as far as it is known and within --time-budget-hours."""
        left, budget_s = self(), self._driver.end.left_s()
        if left is None:
            return "time left: known after the first epoch"
        if budget_s is not None and left.low_s >= budget_s:
            return f"{rough(budget_s)} left until --time-budget-hours ends it"
        ends = ""
        if left.high_s >= 1:
            self._soon_since = None
        else:
            self._soon_since = self._clock() if self._soon_since is None else self._soon_since
            is_over = self._clock() > self._soon_since + MOST_SOON_S
            return "time left: not known, the last epochs take longer than before" if is_over else SOON
        if budget_s is not None and left.high_s > budget_s:
            left, ends = left.at_most(budget_s), "when --time-budget-hours ends it"
        notes = [rough_range(left.low_s, left.high_s, left.best_s), ends]
        noted = ", ".join(note for note in notes if note)
        return f"about {rough(left.best_s)} left" + (f" ({noted})" if noted else "")

    def _compute(self) -> TimeLeft | None:
        record, config = self._driver.record, self._driver.config
        is_scored = not set(config.trainables) <= set(record.info.without_test)
        ahead = Ahead(self._cohorts(), self._slots(), self._waits, is_scored)
        return self._estimate(record, ahead, time.time(), record.elapsed_s)

    def _cohorts(self) -> Sequence[Cohort]:
        """Those of now: a user may plan more trials or fewer, and a space may have fewer points."""
        record = self._driver.record
        *before, last = record.planned_trials or [self._driver.config.num_trials or 1]
        planned = [*before, max(last, len(record.searched))]
        if planned != self._planned:
            self._planned = planned
            self._ahead = cohorts.of(self._driver.plan.scheduler, self._driver.config, planned)
        return self._ahead
