"""Reruns of trials with new seeds, and the best of these trials.

The best of many scores was selected for being high, so the search overestimates its winner. Reruns are not
selected: their mean, without the score of the search itself, has no such bias.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.common.objective import Objectives
from sweeps.record.pareto import BestFirst
from sweeps.record.trials import TrialRow


@dataclass(frozen=True)
class Confirmed:
    """A trial whose reruns have ended."""

    number: int
    """Of the trial."""
    values: tuple[tuple[float, ...], ...]
    """Of each rerun that ended well, the value of each objective in its best epoch."""
    failures: int
    """Reruns that failed or diverged: a trial with more of them ranks lower."""

    @property
    def scores(self) -> tuple[float, ...]:
        """The best score of each rerun that ended well; of several objectives the first one's."""
        return tuple(score for score, *_ in self.values)

    @property
    def ended(self) -> int:
        """Number of its reruns that have ended."""
        return len(self.values) + self.failures

    @property
    def mean(self) -> float:
        """Of the scores; nan when no rerun ended well."""
        return self.means[0]

    @property
    def means(self) -> tuple[float, ...]:
        """Of all objectives."""
        return tuple(map(statistics.fmean, zip(*self.values, strict=True))) or (math.nan,)

    @property
    def std(self) -> float | None:
        """Sample standard deviation of the scores; None of fewer than two."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None


def confirmed_by(number: int, reruns: Sequence[TrialRow], objectives: Objectives) -> Confirmed:
    """What the reruns of a trial show that have ended."""
    ended = [rerun for rerun in reruns if rerun.status != "unfinished"]
    values = (rerun.values(objectives) for rerun in ended if rerun.status == "finished")
    found = tuple(each for each in values if each is not None)
    return Confirmed(number, found, len(ended) - len(found))


def order_of(trials: Iterable[Confirmed], objectives: Objectives) -> BestFirst:
    """Those with scores by their means; a rerun that failed counts as a constraint that was missed."""
    order = BestFirst()
    for trial in trials:
        if trial.scores:
            means = zip(objectives.every, trial.means, strict=True)
            order.add(trial.number, (float(trial.failures), *(-each.sign * mean for each, mean in means)))
    return order


def in_order(trials: Iterable[Confirmed], objectives: Objectives) -> list[Confirmed]:
    """The best one first; those without a score come last."""
    by_number = {trial.number: trial for trial in trials}
    without = sorted(number for number, trial in by_number.items() if not trial.scores)
    without.sort(key=lambda number: by_number[number].failures)
    return [by_number[number] for number in (*order_of(by_number.values(), objectives), *without)]


def seeds(sweep_seed: int, count: int) -> list[int]:
    """New seeds, all different from each other and from the sweep's; a larger count begins with the same.

    All trials are rerun with the same seeds, so that they differ by their hyperparameters alone.
    """
    found, turns = {sweep_seed: None}, itertools.count()
    while len(found) <= count:
        state = np.random.SeedSequence((sweep_seed, next(turns)), spawn_key=(2,)).generate_state(1)
        found[int(state[0])] = None
    return list(found)[1:]
