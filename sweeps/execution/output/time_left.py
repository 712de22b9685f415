"""The time left of a sweep that runs: the epochs to come, at the pace of those before.

How many trials train how far the scheduler says (`search/rungs.py`). The pace is that of this run of the
sweep, since its number of slots has changed; the range is that of the trials' seconds per epoch, from the
20 % quantile to the 80 % quantile. `benchmarks/time_left.py` compares it with the truth.
It counts the time that the sweep has run: a PC may sleep meanwhile, and its clock may be set.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.common.formatting import rough
from sweeps.execution.run_context import RunContext
from sweeps.record.ranking import RankedTrials
from sweeps.search.rungs import Cohort, spans_left


@dataclass(frozen=True)
class TimeLeft:
    """Seconds until a sweep ends."""

    best_s: float
    """The best guess."""
    low_s: float
    high_s: float
    epochs: float
    """To come, of all trials together."""

    def in_words(self, budget_s: float | None) -> str:
        """`about 12 min left (9 to 16 min)`, within what is left of --time-budget-hours."""
        best_s, high_s, ends = self.best_s, self.high_s, ""
        if budget_s is not None and self.low_s >= budget_s:
            return f"{rough(budget_s)} left until --time-budget-hours ends it"
        if high_s < 1:
            return "less than 1 s left"
        if budget_s is not None and high_s > budget_s:
            best_s, high_s, ends = min(best_s, budget_s), budget_s, "when --time-budget-hours ends it"
        low, high = rough(self.low_s), rough(high_s)
        number, unit = low.split()
        span = f"{number if high.endswith(f' {unit}') else low} to {high}" if low != high else ""
        noted = ", ".join(filter(None, (span, ends)))
        return f"about {rough(best_s)} left" + (f" ({noted})" if noted else "")


class TimeLeftTeller:
    """Tells the time left of a sweep.

    Args:
        slots: trials that may train now; without any the time left is that with one.
    """

    def __init__(self, context: RunContext, slots: Callable[[], int]) -> None:
        self._context, self._slots = context, slots
        self._slots_before, self._since_s = slots(), 0.0

    def now(self) -> TimeLeft | None:
        """The time left; None before the first epoch."""
        record = self._context.record
        if (slots := self._slots()) != self._slots_before:
            self._slots_before, self._since_s = slots, record.elapsed_s
        ahead = self._context.plan.scheduler.cohorts(self._context.config, record.planned_trials)
        return time_left(record, ahead, max(1, slots), self._since_s, record.elapsed_s)

    def in_words(self, left: TimeLeft | None) -> str:
        """The same in words, as far as it is known: while others have all places that is when one is free."""
        if self._context.places.waits:
            return "time left: known once it has a place"
        if left is None:
            return "time left: known after the first epoch"
        return left.in_words(self._context.left_s)


def time_left(
    record: RankedTrials, ahead: Sequence[Cohort], slots: int, since_s: float, now_s: float
) -> TimeLeft | None:
    """The time left of a sweep that runs; None before its first epoch.

    Args:
        ahead: its trials, and how far they are to train.
        slots: trials at a time.
        since_s: how long the sweep had run when there were so many first.
        now_s: how long it has run.
    """
    of_trials = [trial.epochs[len(trial.epochs)].seconds for trial in record.trials if trial.epochs]
    if not of_trials:
        return None
    mean_s = statistics.fmean(of_trials)
    spans = [*itertools.chain.from_iterable(spans_left(record, cohort) for cohort in ahead)]
    spans += _spans_of_reruns(record, ahead[-1].ends[-1])
    to_come = sum(trials * epochs for trials, epochs in spans)
    longest = max((epochs for trials, epochs in spans if trials >= 0.5), default=0)
    # The last trials leave slots idle: on average, half as long as the longest of them takes.
    epochs = max(longest, to_come / slots + (1 - 1 / slots) * longest / 2)
    best_s = epochs * _epoch_s(record, mean_s, slots, since_s, now_s)
    low, high = map(float, np.quantile(of_trials, (0.2, 0.8)))
    return TimeLeft(best_s, best_s * min(1.0, low / mean_s), best_s * max(1.0, high / mean_s), to_come)


def _spans_of_reruns(record: RankedTrials, last_epoch: int) -> list[tuple[float, int]]:
    unfinished = [(1.0, last_epoch - len(trial.epochs)) for trial in record.unfinished_reruns]
    return [*unfinished, (len(record.reruns_to_come()), last_epoch)]


def _epoch_s(record: RankedTrials, mean_s: float, slots: int, since_s: float, now_s: float) -> float:
    """Seconds that an epoch takes a slot, with all that comes between epochs.

    Each slot is taken to have trained one epoch before the first that is counted.
    """
    began = max((run.started or 0.0 for run in record.info.runs), default=0.0)
    reported, first_s = 0, now_s
    for trial in record.trials:
        for row in reversed(trial.epochs.values()):
            if row.time < began or row.elapsed_s < since_s:
                break
            reported, first_s = reported + 1, min(first_s, row.elapsed_s)
    return slots * (now_s - first_s + mean_s) / (max(0, reported - 1) + slots)
