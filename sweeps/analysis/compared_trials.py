"""The trials of a sweep by what they tried and their scores at one epoch, and the importance of their
hyperparameters there.

Scores of different epochs are never compared. Figures, advice and refined ranges look at the same trials.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from sweeps.common.formatting import count
from sweeps.common.objective import Objective
from sweeps.common.yaml_values import ParamValue
from sweeps.record.ranking import LEAST_COMPARED, RankedTrials
from sweeps.record.trials import BAD, TrialRow
from sweeps.space.numeric_range import Range, Side, are_numbers
from sweeps.space.optuna_space import choices_of, known_trial, range_of
from sweeps.space.point import OptunaPoint

T = TypeVar("T")
LEAST_BEST = 3
"""Trials that count as the best ones, at least."""
BEST_SHARE = 0.2
"""Of all, that count as the best ones, unless another share is asked for."""
FEW = 8
"""Trials below which no range is judged."""
SIDES: tuple[Side, ...] = ("high", "low")
BY_CHANCE = 0.05
"""Significance level: a pattern that chance makes more often than this is none."""
TOP_TRIALS = math.ceil(LEAST_COMPARED / 4)


@dataclass(frozen=True)
class Tried:
    """What trials tried, by the names that the space asks for."""

    params: Mapping[int, Mapping[str, ParamValue]]
    """Of each trial, by its number."""
    ranges: Mapping[str, BaseDistribution]
    """Of each hyperparameter that has more than one value, over all trials."""


@dataclass(frozen=True)
class ComparedTrials:
    """Trials of the search, all or those of one trainable, by their scores at one epoch."""

    epoch: int
    """0 where none has a score."""
    trials: tuple[TrialRow, ...]
    """Whether they reached it or not; without defaults that lie outside the space."""
    order: tuple[TrialRow, ...]
    """Those that reached it with a finite score and did not fail or diverge later, the best first."""
    objective: Objective

    @cached_property
    def scores(self) -> Mapping[int, float]:
        """Number of each trial in `order` to its score."""
        return {trial.number: trial.epochs[self.epoch].score for trial in self.order}

    @cached_property
    def tried(self) -> Tried:
        """What all the trials tried."""
        return tried(self.trials)

    @property
    def words(self) -> str:
        """`scores at epoch 3, which 24 of 30 trials reached`."""
        reached = f"{len(self.order):,} of {count(len(self.trials), 'trial')}"
        return f"scores at epoch {self.epoch}, which {reached} reached"

    def best(self, share: float = BEST_SHARE) -> tuple[TrialRow, ...]:
        """The share of the best ones: of all trials that have begun, so many."""
        begun = sum(trial.status != "unfinished" or bool(trial.epochs) for trial in self.trials)
        return self.order[: max(LEAST_BEST, math.ceil(share * begun))]

    @property
    def good(self) -> tuple[TrialRow, ...]:
        """As many of the ranked ones as half of all; trials that were pruned before are not among them."""
        return self.order[: max(len(self.best()), math.ceil(len(self.trials) / 2))]

    @property
    def bad(self) -> list[TrialRow]:
        """Those that failed, diverged or are infeasible."""
        return [trial for trial in self.trials if trial.status in BAD]

    @property
    def is_constant(self) -> bool:
        """Whether no score differs from another."""
        return len(set(self.scores.values())) < 2

    @property
    def can_judge_ranges(self) -> bool:
        """Whether there are enough scores, and different ones."""
        return len(self.order) >= FEW and not self.is_constant

    @property
    def top(self) -> float:
        """The share of trials that count as the best for importance: a tenth, or more where that is too
        few."""
        return max(0.1, TOP_TRIALS / max(1, len(self.order)))

    @property
    def why_no_importance(self) -> str:
        """Why importance can't be computed; "" where it can."""
        if len(self.scores) > 1 and self.is_constant:
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
        # It takes seconds to import, which the page of all sweeps and the start of a sweep do without.
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        known = inspect.signature(PedAnovaImportanceEvaluator).parameters
        # Before Optuna 4.7 it has the other name.
        best: Any = {"target_quantile" if "target_quantile" in known else "baseline_quantile": self.top}
        # Of a condition that few trials met, and of a value between two steps: it was tried.
        with warnings.catch_warnings(action="ignore"):
            evaluator = PedAnovaImportanceEvaluator(**best)
            best_first = list(self.scores)
            even = best_first[:: math.ceil(len(best_first) / MOST_FOR_IMPORTANCE)]
            study = optuna.create_study(direction=self.objective.direction)
            study.add_trials(map(self._trial, even[::-1]))
            return get_param_importances(study, evaluator=evaluator)

    def sample(self, most: int) -> list[int]:
        """At most so many that reached the epoch, as `thinned`, the best one last: it is drawn over the
        others."""
        return thinned(list(self.scores), most)[::-1]

    def _trial(self, number: int) -> FrozenTrial:
        params = {name: v for name, v in self.tried.params[number].items() if name in self.tried.ranges}
        of_study = OptunaPoint(params, {name: self.tried.ranges[name] for name in params})
        return known_trial(of_study, TrialState.COMPLETE, [self.scores[number]])


MOST_FOR_IMPORTANCE = 4_000
"""Trials by which importance is computed, an even sample of more: Optuna takes 0.3 ms for each. Of 10,000
trials with six equal hyperparameters it moves their shares by at most 0.03."""
_FOUND: WeakKeyDictionary[RankedTrials, tuple[Any, dict[Any, ComparedTrials]]] = WeakKeyDictionary()
"""Of each record how far it was, and what was found of each trainable: importances take time."""


def compared_trials(record: RankedTrials, trainable: str | None = None) -> ComparedTrials:
    """Trials, all or those of a trainable, by their scores at the epoch at which they are compared; computed
    once."""
    only = None if len(trainables(record)) == 1 else trainable
    how_far = len(record.trials), len(record.live), sum(len(trial.epochs) for trial in record.trials)
    before, known = _FOUND.get(record, (None, {}))
    if before != how_far:
        known = {}
        _FOUND[record] = how_far, known
    if only not in known:
        at = record.compared_at(only)
        inside = (trial for trial in record.searched if not trial.is_outside)
        trials = tuple(trial for trial in inside if only in (None, trial.trainable))
        sign, scores = record.objective.sign, record.scores_at(at)
        there = [trial for trial in trials if trial.number in scores and trial.status not in BAD]
        there.sort(key=lambda trial: (-sign * scores[trial.number], trial.number))
        known[only] = ComparedTrials(at, trials, tuple(there), record.objective)
    return known[only]


def thinned(best_first: Sequence[T], most: int) -> list[T]:
    """At most so many: the best quarter of so many, and an even sample of the others."""
    if len(best_first) <= most:
        return list(best_first)
    best, others = best_first[: most // 4], best_first[most // 4 :]
    sample = np.linspace(0, len(others) - 1, most - len(best)).round().astype(int)
    return [*best, *(others[index] for index in sample)]


def trainables(record: RankedTrials) -> list[str]:
    """What the trials trained, as it was named to the sweep."""
    return list(dict.fromkeys(trial.trainable for trial in record.searched))


def tried(trials: Sequence[TrialRow]) -> Tried:
    """What trials tried, and the ranges of that.

    A hyperparameter without a distribution of Optuna's (`sample_from`, a normal one) has the range of its
    values. One that was fixed for some trials, as the ranges were changed, has that value there.
    """
    swept = {(trial.trainable, name) for trial in trials for name in trial.params}
    params = {trial.number: _named(trial, swept) for trial in trials}
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


def _named(trial: TrialRow, swept: Container[tuple[str, str]]) -> dict[str, ParamValue]:
    """Its hyperparameters that are swept, as the space names them (of several: `fashion_cnn.lr`)."""
    named = dict(trial.optuna.params)
    prefix = f"{trial.trainable}." if "trainable" in named and "trainable" not in trial.params else ""
    fixed = {name: value for name, value in trial.fixed.items() if (trial.trainable, name) in swept}
    return named | {
        f"{prefix}{name}": value
        for name, value in {**fixed, **trial.params}.items()
        if name not in named and f"{trial.trainable}.{name}" not in named
    }


def _range(distributions: Sequence[BaseDistribution], values: Sequence[Any]) -> BaseDistribution:
    """One range for a hyperparameter: of all that it was drawn from, or of its values."""
    numbers = range_of(distributions)
    if not distributions and are_numbers(values):
        numbers = Range(float(min(values)), float(max(values)))
    elif numbers is not None and are_numbers(values):  # what the user chose, or fixed later, may lie beyond
        low, high = min(numbers.low, *values), max(numbers.high, *values)
        numbers = dataclasses.replace(numbers, low=low, high=high, is_log=numbers.is_log and low > 0)
    if numbers is None or not are_numbers(values):
        return CategoricalDistribution(list(dict.fromkeys([*choices_of(distributions), *values])))
    if numbers.is_whole and all(isinstance(value, int) for value in values):
        return IntDistribution(int(numbers.low), int(numbers.high), log=numbers.is_log)
    return FloatDistribution(numbers.low, numbers.high, log=numbers.is_log)


def distributions_of(
    trials: Sequence[TrialRow], with_trainable: bool = False
) -> dict[str, list[BaseDistribution]]:
    """Hyperparameter, by Optuna's name, to the distributions that it was drawn from; the choice of one of
    several trainables may count as one."""
    # By their identity first: all trials of a sweep share a few objects, whose hashes take longer.
    found: dict[str, dict[int, BaseDistribution]] = {}
    for trial in trials:
        for name, distribution in trial.optuna.distributions.items():
            if with_trainable or name != "trainable":
                found.setdefault(name, {})[id(distribution)] = distribution
    return {name: list(dict.fromkeys(distributions.values())) for name, distributions in found.items()}


def newest_distributions(trials: Sequence[TrialRow]) -> Mapping[str, BaseDistribution]:
    """Those of the last trial that was drawn from a space, by Optuna's names: ranges may have changed."""
    return next((t.optuna.distributions for t in reversed(trials) if t.optuna.distributions), {})
