"""The trials of a sweep at one fidelity, as a study of Optuna's, and the importance of hyperparameters there.

Scores of different epochs are never compared. The figures of hyperparameters and the advice use the same
study, so they give the same numbers.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState, create_trial
from scipy.stats import kruskal

from sweeps.analysis.top_trials import distributions_of, is_bad, trainables, trials_of
from sweeps.common.formatting import count
from sweeps.common.objective import Objective
from sweeps.common.yaml_values import ParamValue
from sweeps.record.ranking import LEAST_COMPARED
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow

TOP_TRIALS = math.ceil(LEAST_COMPARED / 4)
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
class Tried:
    """What trials tried, by the names that the space asks for."""

    params: Mapping[int, Mapping[str, ParamValue]]
    """Of each trial, by its number."""
    ranges: Mapping[str, BaseDistribution]
    """Of each hyperparameter that has more than one value, over all trials."""


@dataclass(frozen=True)
class Fidelity:
    """Trials with their scores at one epoch."""

    epoch: int
    scores: Mapping[int, float]
    """Trial number to score."""
    tried: Tried
    objective: Objective
    trials: int
    """How many there are in all."""

    @property
    def words(self) -> str:
        """`scores at epoch 3, which 24 of 30 trials reached`."""
        reached = f"{len(self.scores):,} of {count(self.trials, 'trial')}"
        return f"scores at epoch {self.epoch}, which {reached} reached"

    @property
    def best_first(self) -> list[int]:
        """Numbers of the trials."""
        sign = self.objective.sign
        return sorted(self.scores, key=lambda number: (-sign * self.scores[number], number))

    @property
    def top(self) -> float:
        """The share of trials that count as the best: a tenth, or more where that is too few."""
        return max(0.1, TOP_TRIALS / max(1, len(self.scores)))

    @property
    def why_no_importance(self) -> str:
        """Why importance can't be computed; "" where it can."""
        if len(self.scores) > 1 and len(set(self.scores.values())) == 1:
            return f"All {len(self.scores)} trials have the same score: no hyperparameter has any importance."
        if len(self.scores) < LEAST_COMPARED:
            return (
                f"Importance needs {LEAST_COMPARED} trials with a score at the same epoch; "
                f"{len(self.scores)} reached epoch {self.epoch}. With fewer, importance would be chance."
            )
        if len(self.tried.ranges) < 2:
            return "Importance compares hyperparameters; fewer than two were varied."
        return ""

    @cached_property
    def importances(self) -> dict[str, float]:
        """Hyperparameter to its share of the importance of all, the largest first, by PED-ANOVA: how much it
        decided whether a trial is in the `top`. {} where it can't be computed.

        Watanabe et al., 2023, https://arxiv.org/abs/2304.10255; with conditional hyperparameters
        https://arxiv.org/abs/2601.20800.
        """
        if self.why_no_importance:
            return {}
        with warnings.catch_warnings(action="ignore"):  # of a condition that few trials met
            evaluator = PedAnovaImportanceEvaluator(target_quantile=self.top)
            return get_param_importances(self.study(), evaluator=evaluator)

    def percent(self, hyperparameter: str) -> str:
        """Importance of a hyperparameter, `12.3 %`."""
        return f"{100 * self.importances[hyperparameter]:.1f} %"

    def study(self, most: int | None = None) -> optuna.Study:
        """Trials that reached the epoch, complete, the best one last: it is drawn over the others.

        Args:
            most: of more, the best quarter of so many is in it, and an even sample of the others.
        """
        kept = self.best_first
        if most is not None and len(kept) > most:
            best, others = kept[: most // 4], kept[most // 4 :]
            sample = np.arange(most - len(best)) * len(others) // (most - len(best))
            kept = [*best, *(others[index] for index in sample)]
        study = optuna.create_study(direction=self.objective.direction)
        study.add_trials([self._trial(number) for number in reversed(kept)])
        return study

    def _trial(self, number: int) -> FrozenTrial:
        params = {name: v for name, v in self.tried.params[number].items() if name in self.tried.ranges}
        with warnings.catch_warnings(action="ignore"):  # of a value between two steps: it was tried
            return create_trial(
                state=TrialState.COMPLETE,
                value=self.scores[number],
                params=params,
                distributions={name: self.tried.ranges[name] for name in params},
                user_attrs={"number": number},
            )


_FOUND: WeakKeyDictionary[Record, dict[Any, Fidelity]] = WeakKeyDictionary()
"""What was found of each record, by its size, the trainable and the epoch: importances and studies take
time."""


def fidelity(record: Record, trainable: str | None = None) -> Fidelity | None:
    """The trials of a trainable, or (None) of all, at the epoch at which they are compared; None while there
    is no score."""
    epoch = record.compared_at(trainable)
    return fidelity_at(record, trainable, epoch) if epoch else None


def fidelity_at(record: Record, trainable: str | None, epoch: int) -> Fidelity:
    """The trials with a finite score at an epoch; computed once."""
    only = None if len(trainables(record)) == 1 else trainable
    known = _FOUND.setdefault(record, {})
    key = (len(record.trials), sum(len(trial.epochs) for trial in record.trials), only, epoch)
    if key not in known:
        trials = trials_of(record, only)
        scores = {t.number: t.epochs[epoch].score for t in trials if epoch in t.epochs}
        finite = {number: score for number, score in scores.items() if math.isfinite(score)}
        known[key] = Fidelity(epoch, finite, tried(trials), record.objective, len(trials))
    return known[key]


def times_reached(trials: Sequence[TrialRow]) -> Counter[int]:
    """Epoch to how many trials have a finite score there."""
    return Counter(e for trial in trials for e, row in trial.epochs.items() if math.isfinite(row.score))


def tried(trials: Sequence[TrialRow]) -> Tried:
    """What trials tried, and the ranges of that.

    A hyperparameter without a distribution of Optuna's (`sample_from`, a normal one) has the range of its
    values.
    """
    params = {trial.number: _named(trial) for trial in trials}
    distributions = distributions_of(trials, with_trainable=True)
    values: dict[str, dict[ParamValue, None]] = {}
    for of_trial in params.values():
        for name, value in of_trial.items():
            values.setdefault(name, {})[value] = None
    ranges = {
        name: _range(distributions.get(name, []), list(of_name))
        for name, of_name in sorted(values.items())
        if len(of_name) > 1
    }
    return Tried(params, ranges)


def _named(trial: TrialRow) -> dict[str, ParamValue]:
    """Its swept hyperparameters as the space names them (of several trainables: `fashion_cnn.lr`)."""
    named = dict(trial.optuna.params)
    prefix = f"{trial.trainable}." if "trainable" in named and "trainable" not in trial.params else ""
    return named | {
        f"{prefix}{name}": value
        for name, value in trial.params.items()
        if name not in named and f"{trial.trainable}.{name}" not in named
    }


def _range(distributions: Sequence[BaseDistribution], values: Sequence[Any]) -> BaseDistribution:
    """One range for a hyperparameter: of all that it was drawn from, or of its values."""
    ranges = [d for d in distributions if isinstance(d, FloatDistribution | IntDistribution)]
    if ranges and len(ranges) == len(distributions):
        low, high, log = min(r.low for r in ranges), max(r.high for r in ranges), any(r.log for r in ranges)
        if all(isinstance(r, IntDistribution) for r in ranges):
            return IntDistribution(int(low), int(high), log=log)
        return FloatDistribution(low, high, log=log)
    if not distributions and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return FloatDistribution(float(min(values)), float(max(values)))
    listed = [c for d in distributions if isinstance(d, CategoricalDistribution) for c in d.choices]
    return CategoricalDistribution(list(dict.fromkeys([*listed, *values])))


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
