"""Whether a sweep pruned too early, and what more trials might gain: from its record alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import hypergeom, spearmanr

from sweeps.analysis.top_trials import FEW, Ranked
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.search.rungs import rungs

WEAK = 0.4
"""A rank correlation below which the ranks at a rung hardly predict those at the end."""
SURE_Z = 1.645
"""Of a normal distribution: 95 % lie below."""


@dataclass(frozen=True)
class RungCheck:
    """How well the ranks at a rung predicted later ones."""

    epoch: int
    end: int
    """The last epoch, or a rung before it where few got so far."""
    trials: int
    """That reached both."""
    correlation: float | None
    """Spearman's, of those; None with too few of them, or all equal."""
    rank: int
    """At the rung, of the one that was best at the end: 1 is the best."""
    of: int
    """Trials that were at the rung."""
    tied: int | None = None
    """Epoch, this one or the end, at which all that reached both have the same score; None where they differ,
    or too few reached both."""

    @property
    def is_weak(self) -> bool:
        """Whether the correlation is lower than WEAK beyond doubt. The few survivors of a rung that predicts
        the end well are alike, and mostly show a low one by chance.

        Fisher's interval, with the variance that ranks have (Fieller, Hartley, Pearson, 1957).
        """
        if self.correlation is None:
            return False
        error = math.sqrt(1.06 / (self.trials - 3))
        return self.correlation < math.tanh(math.atanh(WEAK) - SURE_Z * error)


def rung_checks(record: Record, seen: Ranked) -> list[RungCheck]:
    """Each rung beside the last later one, or the end, that enough of its trials reached, else the end."""
    numbers, judged = {trial.number for trial in seen.trials}, judged_at(record)
    at = {epoch: _scores_at(record, epoch, numbers) for epoch in judged}
    found = []
    for epoch in judged[:-1]:
        later = [other for other in at if other > epoch]
        end = next(
            (other for other in reversed(later) if len(at[epoch].keys() & at[other]) >= FEW), later[-1]
        )
        if (check := _check(epoch, at[epoch], end, at[end])) is not None:
            found.append(check)
    return found


def _check(epoch: int, there: dict[int, float], end: int, at_end: dict[int, float]) -> RungCheck | None:
    """Ranks at two epochs; None where no trial reached the end, or the best one there came another way."""
    winner = max(at_end, key=lambda number: at_end[number], default=None)
    if winner not in there:
        return None
    both = [number for number in at_end if number in there]
    first, last = [there[number] for number in both], [at_end[number] for number in both]
    correlation, tied = None, None
    if len(both) >= FEW:
        scores = {epoch: first, end: last}
        tied = max((at for at, values in scores.items() if len(set(values)) < 2), default=None)
        correlation = None if tied else float(spearmanr(first, last).statistic)
    rank = 1 + sum(score > there[winner] for score in there.values())
    return RungCheck(epoch, end, len(both), correlation, rank, len(there), tied)


def judged_at(record: Record) -> list[int]:
    """The rungs of a sweep, then its last epoch; none of an older record, which does not name them."""
    names = ("max_epochs", "grace_epochs", "reduction_factor")
    asked = {name: value for name, value in record.info.identity["settings"].items() if name in names}
    config = SweepConfig.of(**asked)
    return [*rungs(config), config.max_epochs] if asked else []


def _scores_at(record: Record, epoch: int, numbers: set[int]) -> dict[int, float]:
    """Trial number to score, larger is better."""
    sign = record.objective.sign
    return {n: sign * score for n, score in record.scores_at(epoch).items() if n in numbers}


@dataclass(frozen=True)
class Gain:
    """What more trials in the same space might gain."""

    score: float
    """By which the best score at `epoch` may be expected to become better, at most about."""
    epoch: int
    trials: int
    """So many more."""


def gain(seen: Ranked) -> Gain | None:
    """As much as the second half of the trials gained, averaged over their orders: the best of all minus the
    mean best of random halves. Of independent draws whose scores have an upper end, as many again gain less
    than that. None with too few trials."""
    if len(seen.values) < FEW:
        return None
    return Gain(
        max(0.0, max(seen.values) - _mean_best(seen.values, len(seen.values) // 2)),
        seen.epoch,
        len(seen.values),
    )


def _mean_best(scores: Sequence[float], draws: int) -> float:
    """Mean of the best of so many draws without replacement."""
    # All draws are among the lowest k scores: the distribution function of their best.
    below = hypergeom.pmf(draws, len(scores), np.arange(len(scores) + 1), draws)
    return float(np.diff(below) @ np.sort(scores))
