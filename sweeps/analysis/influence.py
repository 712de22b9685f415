"""Hyperparameters that showed no influence on the score."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass

from optuna.distributions import CategoricalDistribution
from scipy.stats import kruskal

from sweeps.analysis.fidelity import Fidelity, fidelity, fidelity_at, times_reached
from sweeps.analysis.top_trials import is_bad, trials_of
from sweeps.common.yaml_values import ParamValue
from sweeps.record.record import Record

NO_INFLUENCE = 0.02
"""Importance below which a hyperparameter counts as one without influence."""
NEARLY_ALL = 0.9
"""Of the trials that did not fail or diverge."""
LEAST_TO_FIX = 100
"""Trials below which none is reported: in fewer, chance hides an influence."""
LIKE_CHANCE = 0.5
"""Scores that differ by a hyperparameter's value more than chance makes them differ so often show some
influence."""
MOST_GROUPS = 8
"""Values of a hyperparameter whose scores are compared one by one; of more, quarters are."""


@dataclass(frozen=True)
class Influence:
    """Which hyperparameters of a trainable showed no influence, and at which epochs that was tested.

    One fidelity would not be enough: trials that went far are survivors, whose values of a
    hyperparameter that decided early are all alike, so that it seems to decide nothing; and the first epochs
    don't show what matters later. A hyperparameter is without influence where neither shows any.
    """

    at: Fidelity
    """What the figures show."""
    early: Fidelity
    """The last epoch that nearly all trials reached; mostly the same one without early stopping."""

    @property
    def without(self) -> list[str]:
        """Hyperparameters without influence at both, of those that all trials have. Scores must not differ
        by their values either: importances are shares, so that a weak one is near 0 beside a strong one."""
        return [
            hyperparameter
            for hyperparameter, share in self.at.importances.items()
            if max(share, self.early.importances.get(hyperparameter, 1.0)) < NO_INFLUENCE
            and all(hyperparameter in self.early.tried.params[number] for number in self.early.scores)
            and not any(_scores_differ(there, hyperparameter) for there in (self.at, self.early))
        ]


def influence(record: Record, trainable: str) -> Influence | None:
    """What the trials of a trainable show of its hyperparameters; None where there are too few trials."""
    trials = [trial for trial in trials_of(record, trainable) if not is_bad(trial)]
    needed = max(LEAST_TO_FIX, math.ceil(NEARLY_ALL * len(trials)))
    common = max((epoch for epoch, times in times_reached(trials).items() if times >= needed), default=None)
    at = fidelity(record, trainable)
    if at is None or common is None or not at.importances:
        return None
    return Influence(at, fidelity_at(record, trainable, common))


def _scores_differ(there: Fidelity, hyperparameter: str) -> bool:
    """Whether scores differ by a hyperparameter's value (Kruskal-Wallis)."""
    points = [(there.tried.params[number][hyperparameter], score) for number, score in there.scores.items()]
    by_value: dict[ParamValue, list[float]] = defaultdict(list)
    for value, score in points:
        by_value[value].append(score)
    groups = list(by_value.values())
    is_choice = isinstance(there.tried.ranges[hyperparameter], CategoricalDistribution)
    if len(groups) > MOST_GROUPS and not is_choice:
        ordered = [score for _, score in sorted(points)]
        ends = [len(ordered) * quarter // 4 for quarter in range(5)]
        groups = [ordered[first:last] for first, last in itertools.pairwise(ends)]
    return len(groups) > 1 and bool(kruskal(*groups).pvalue < LIKE_CHANCE)
