"""The rungs at which trials are judged, and the trials that are ranked against each other there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sweeps.common.formatting import count
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.ranking import RankedTrials


def rungs(config: SweepConfig) -> list[int]:
    """Epochs at which trials are judged: grace x factor^k below the end.

    Computed in whole numbers: Ray's truncated logarithm is one short for 243 / 3 or 1000 / 10.
    """
    found, epoch = [], config.grace_epochs
    while epoch < config.max_epochs:
        found.append(epoch)
        epoch *= config.reduction_factor
    return found


def rungs_and_end(config: SweepConfig) -> tuple[int, ...]:
    """Epochs at which trials are compared."""
    return (*rungs(config), config.max_epochs)


def nothing_is_pruned(config: SweepConfig) -> str:
    """What a scheduler says of itself where there is no rung."""
    return f"no rung before the end at {count(config.max_epochs, 'epoch')}, so nothing is pruned"


@dataclass(frozen=True)
class Cohort:
    """Trials that are ranked against each other."""

    first: int
    """Position of its first trial among the searched trials, from 0; the others follow it."""
    ends: tuple[int, ...]
    """The epochs of its rungs, and the last epoch."""
    reach: tuple[float, ...]
    """How many trials train to each of these, when none fails."""
    waits: bool = False
    """Whether a trial waits at a rung for others, so that exactly as many continue; else each is judged by
    those that came before it, so the numbers are expectations."""

    @property
    def size(self) -> int:
        """Number of trials."""
        return round(self.reach[0])

    @property
    def rungs(self) -> tuple[int, ...]:
        """Epochs at which its trials are ranked."""
        return self.ends[:-1]

    @property
    def spans(self) -> list[int]:
        """Epochs from each rung to the next."""
        return [end - before for before, end in zip((0, *self.ends), self.ends, strict=False)]


def spans_left(record: RankedTrials, cohort: Cohort) -> Iterator[tuple[float, int]]:
    """How many trials of a cohort have how many epochs to the next rung before them, of each rung."""
    members = record.searched[cohort.first : cohort.first + cohort.size]
    live = [len(trial.epochs) for trial in members if trial.status == "unfinished"]
    to_begin = float(cohort.size - len(members))
    for rung, (end, span) in enumerate(zip(cohort.ends, cohort.spans, strict=True)):
        begins_at = end - span
        begin_on_their_own = rung == 0 or not cohort.waits
        under_way = [n for n in live if begins_at < n < end or (n == begins_at and begin_on_their_own)]
        yield to_begin, span
        yield from ((1, end - epoch) for epoch in under_way)
        if end == cohort.ends[-1]:
            return
        if cohort.waits:
            passed = sum(len(trial.epochs) > end for trial in members)
            there = (trial for trial in members if len(trial.epochs) == end)
            go_on = sum(trial.status == "unfinished" and not trial.is_paused for trial in there)
            to_begin = max(float(go_on), cohort.reach[rung + 1] - passed)
        else:
            to_begin = (to_begin + len(under_way)) * cohort.reach[rung + 1] / cohort.reach[rung]
