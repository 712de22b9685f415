"""Whether a sweep pruned too eagerly, and what more trials might bring: from its record alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.analysis.top_trials import FEW, Ranked
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.search.rungs import rungs

WEAK = 0.4
"""A rank correlation below which a rung says little of the end."""
SURE_Z = 1.645
"""Of a normal distribution: 95 % lie below."""


@dataclass(frozen=True)
class RungCheck:
    """How well the ranks at a rung foretold those at the end."""

    epoch: int
    end: int
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
        """Whether the correlation is lower than WEAK beyond doubt. The few survivors of a rung that foretells
        the end well are alike, and mostly show a low one by chance.

        Fisher's interval, with the variance that ranks have (Fieller, Hartley, Pearson, 1957).
        """
        if self.correlation is None:
            return False
        error = math.sqrt(1.06 / (self.trials - 3))
        return self.correlation < math.tanh(math.atanh(WEAK) - SURE_Z * error)


def rung_checks(record: Record, seen: Ranked) -> list[RungCheck]:
    """Of each rung below the end, the trials that reached both; none where nobody reached the end."""
    settings = record.info.settings
    asked = {
        name: settings[name]
        for name in ("max_epochs", "grace_epochs", "reduction_factor")
        if name in settings
    }
    config = SweepConfig.of(**asked)
    end = config.max_epochs
    numbers = {trial.number for trial in seen.trials}
    at_end = {number: score for number, score in record.scores_at(end).items() if number in numbers}
    if not at_end or not asked:
        return []
    sign = record.objective.sign
    winner = max(at_end, key=lambda number: sign * at_end[number])
    found = []
    for epoch in rungs(config):
        there = {n: sign * score for n, score in record.scores_at(epoch).items() if n in numbers}
        both = [number for number in at_end if number in there]
        if winner not in there:
            continue
        scores = {epoch: [there[n] for n in both], end: [sign * at_end[n] for n in both]}
        tied = [at for at, values in scores.items() if len(both) >= FEW and len(set(values)) < 2]
        correlation = _spearman(scores[epoch], scores[end])
        rank = 1 + sum(score > there[winner] for score in there.values())
        found.append(RungCheck(epoch, end, len(both), correlation, rank, len(there), max(tied, default=None)))
    return found


def _spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    from scipy.stats import spearmanr

    if len(first) < FEW or len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(spearmanr(first, second).statistic)


@dataclass(frozen=True)
class Gain:
    """What more trials in the same space might bring."""

    score: float
    """By which the best score at `epoch` may be expected to become better, at most about."""
    epoch: int
    trials: int
    """So many more."""


def gain(seen: Ranked) -> Gain | None:
    """By as much as the second half of the trials brought, whichever order they came in: the mean best of
    all minus that of random halves. Of independent draws whose scores have an upper end, as many again bring
    less than that. None with too few trials."""
    total = len(seen.values)
    if total < FEW:
        return None
    half = _expected_best(sorted(seen.values), total // 2)
    return Gain(max(0.0, max(seen.values) - half), seen.epoch, total)


def _expected_best(ascending: Sequence[float], draws: int) -> float:
    """Mean of the best of so many draws without replacement."""
    total = len(ascending)
    of_all = _log_choose(total, draws)
    return math.fsum(
        score * math.exp(_log_choose(place, draws - 1) - of_all)
        for place, score in enumerate(ascending)
        if place >= draws - 1
    )


def _log_choose(total: int, taken: int) -> float:
    return math.lgamma(total + 1) - math.lgamma(taken + 1) - math.lgamma(total - taken + 1)
