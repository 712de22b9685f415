"""How long epochs take, as far as a record tells."""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from sweeps.common.pareto import priorities
from sweeps.record.ranking import RankedTrials
from sweeps.record.trials import EpochRow, TrialRow

SPREAD = 0.6
"""Standard deviation of the logarithm of the seconds per epoch over trials, as long as few were seen."""
SPREAD_WEIGHT = 3.0
"""How many trials it takes until the record tells more about it."""
NOISE = 0.2
"""The same over the epochs of one trial."""
DRIFT = 0.08
"""The same over time: the machine becomes faster or slower."""
FEWEST_RANKED = 3
SHORTEST_S = 1e-6
LONGEST_GAP_S = 1.0
"""Between two epochs of a trial that was not interrupted; or else the time of an epoch."""


@dataclass(frozen=True)
class Pace:
    """Seconds per epoch of each trial, and what a trial takes besides."""

    of_trial: Mapping[int, float]
    """Number to mean seconds per epoch."""
    by_rank: Sequence[float]
    """The same of the searched trials, the best trial first."""
    first_epoch_s: float
    """What the first epoch of a trial takes more: compilation, say."""
    launch_s: float
    """From the start of a trial in a new process to its first epoch."""
    begin_s: float
    """The same in a process that has trained another trial before."""
    is_launched: bool
    """Whether this run of the sweep has reported an epoch, so that its processes are there."""

    @classmethod
    def of(cls, record: RankedTrials, known: Mapping[int, float], pauses: Collection[int]) -> Pace | None:
        """The pace of a record; None before its first epoch.

        Args:
            record: with at least one run.
            known: the `ranks` of its trials.
            pauses: epochs after which trials may have been paused.
        """
        seen = [trial for trial in record.trials if trial.epochs]
        if not seen:
            return None
        began = [run.started or 0.0 for run in record.info.runs] or [0.0]
        first_reports = _first_reports(seen, began)
        seconds = {trial.number: _seconds(trial, pauses) for trial in seen}
        more = [first - statistics.fmean(later) for first, *later in seconds.values() if later]
        first_epoch_s = max(0.0, statistics.median(more)) if more else 0.0
        of_trial = {number: _mean(each, first_epoch_s) for number, each in seconds.items()}
        searched = [trial.number for trial in seen if trial.confirms is None]
        by_rank = [of_trial[number] for number in sorted(searched, key=lambda n: known.get(n, 0.5))]
        overheads = _overheads(seen, began, first_reports)
        return cls(of_trial, by_rank, first_epoch_s, *overheads, is_launched=len(began) in first_reports)

    @property
    def seen(self) -> int:
        """Trials of the search that have reported an epoch."""
        return len(self.by_rank)

    @cached_property
    def mean(self) -> float:
        """Seconds per epoch, over the trials."""
        return statistics.fmean(self.by_rank)

    @cached_property
    def spread(self) -> float:
        """Standard deviation of the logarithm of the seconds per epoch, over the trials."""
        logs = [math.log(seconds) for seconds in self.by_rank]
        mean = statistics.fmean(logs)
        squares = SPREAD_WEIGHT * SPREAD**2 + sum((each - mean) ** 2 for each in logs)
        return math.sqrt(squares / (SPREAD_WEIGHT + len(logs) - 1))

    def luck(self, source: Random) -> float:
        """A factor by which all trials to come may differ from those that were seen."""
        return math.exp(source.gauss(0, math.hypot(self.spread / math.sqrt(self.seen), DRIFT)))

    def draw(self, source: Random, rank: float) -> float:
        """Seconds per epoch of a trial to come; its rank from 0, the best, to 1."""
        unseen = SPREAD * math.sqrt(SPREAD_WEIGHT / (SPREAD_WEIGHT + self.seen))
        seconds = self.by_rank[min(int(rank * self.seen), self.seen - 1)]
        return seconds * math.exp(source.gauss(-(unseen**2) / 2, unseen))

    def again(self, source: Random, trial: TrialRow) -> float:
        """Seconds per epoch of a trial that has trained."""
        noise = math.hypot(NOISE / math.sqrt(len(trial.epochs)), DRIFT)
        return self.of_trial[trial.number] * math.exp(source.gauss(0, noise))


def ranks(record: RankedTrials, epochs: Sequence[int]) -> dict[int, float]:
    """Number of each searched trial to its rank, from 0, the best, to 1, at the last of these epochs that it
    and two others have reported."""
    found: dict[int, float] = {}
    for epoch in epochs:
        losses = record.losses_at(epoch)
        if len(losses) >= FEWEST_RANKED:
            values = priorities(list(losses.values()))
            in_order = sorted(zip(losses, values, strict=True), key=lambda each: -each[1])
            found |= {number: (place + 0.5) / len(losses) for place, (number, _) in enumerate(in_order)}
    return found


def _seconds(trial: TrialRow, pauses: Collection[int]) -> list[float]:
    """How long each epoch took, by the clock as far as the trial trained all the time."""
    found = [trial.epochs[1].seconds]
    for (before, last), (_, row) in itertools.pairwise(trial.epochs.items()):
        by_clock = row.time - last.time
        is_at_a_stretch = before not in pauses and by_clock < row.seconds + max(LONGEST_GAP_S, row.seconds)
        found.append(max(by_clock, row.seconds) if is_at_a_stretch else row.seconds)
    return found


def _mean(seconds: Sequence[float], first_epoch_s: float) -> float:
    """Per epoch, without what only the first takes more."""
    first, *later = seconds
    return max(SHORTEST_S, statistics.fmean(later) if later else max(first - first_epoch_s, first / 3))


def _run(row: EpochRow, began: Sequence[float]) -> int:
    """Which run of the sweep has reported an epoch, from 1."""
    return bisect.bisect(began, row.time)


def _first_reports(seen: Sequence[TrialRow], began: Sequence[float]) -> dict[int, float]:
    """The time of the first epoch that each run has reported."""
    found: dict[int, float] = {}
    for trial in seen:
        for row in trial.epochs.values():
            run = _run(row, began)
            found[run] = min(row.time, found.get(run, math.inf))
    return found


def _overheads(
    seen: Sequence[TrialRow], began: Sequence[float], first_reports: Mapping[int, float]
) -> tuple[float, float]:
    """Seconds from a trial's start to its first epoch: in a new process, and in another."""
    new: list[float] = []
    warm: list[float] = []
    for trial in seen:
        first = trial.epochs[1]
        is_new = trial.start < first_reports[_run(first, began)]
        (new if is_new else warm).append(max(0.0, first.time - trial.start - first.seconds))
    return (statistics.median(new) if new else 0.0), (statistics.median(warm) if warm else 0.0)
