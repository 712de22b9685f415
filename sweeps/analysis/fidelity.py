"""The trials of a sweep at one fidelity, as a study of Optuna's: what figures and importances are made of.

With early stopping few trials are complete, and those that are were chosen. So a study is made of the scores
at one epoch, the highest that enough trials reached: scores of different epochs are never compared. Figures
of hyperparameters and the advice on them look at the same one, so that they quote the same numbers.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import TrialState, create_trial

from sweeps.common.formatting import count
from sweeps.common.objective import Objective
from sweeps.common.yaml_values import ParamValue
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow

ENOUGH = 20
"""Trials that a fidelity needs. Of fewer, the best quarter has fewer than 5, which is the least that Optuna's
PED-ANOVA is said to need above its quantile."""
TOP_TRIALS = math.ceil(ENOUGH / 4)
ENOUGH_SHARE = 0.1
"""Of all trials, likewise: of many, the few that came to the end are all alike."""
MOST_SHARE = 2 / 3
"""Of those that reached any epoch: more are never asked for."""
NO_INFLUENCE = 0.02
"""Importance below which a hyperparameter counts as one without influence."""
NEARLY_ALL = 0.9
"""Of the trials that did not fail or diverge."""
LEAST_TO_FIX = 100
"""Trials below which no hyperparameter is said to be without influence: in fewer, chance hides one that has
some."""
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
        """Which scores, and of how many trials."""
        return f"scores at epoch {self.epoch}, of {len(self.scores):,} of {count(self.trials, 'trial')}"

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
        """Why no importance can be told; "" where it can."""
        if len(self.scores) > 1 and len(set(self.scores.values())) == 1:
            return f"All {len(self.scores)} trials have the same score: no hyperparameter decided anything."
        if len(self.scores) < ENOUGH:
            return (
                f"Importance needs {ENOUGH} trials with a score at one epoch; epoch {self.epoch} was reached "
                f"by {len(self.scores)}. With fewer it would be chance."
            )
        if len(self.tried.ranges) < 2:
            return "Importance compares hyperparameters; here fewer than two were varied."
        return ""

    @cached_property
    def importances(self) -> dict[str, float]:
        """Hyperparameter to its share of what all decide, the largest first, by PED-ANOVA: how much it
        decided whether a trial came among the `top`. {} where it can't be told.

        Watanabe et al., 2023, https://arxiv.org/abs/2304.10255; with conditional hyperparameters
        https://arxiv.org/abs/2601.20800.
        """
        if self.why_no_importance:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # a condition that few trials met: the words say how many there are
            evaluator = PedAnovaImportanceEvaluator(target_quantile=self.top)
            return get_param_importances(self.study(), evaluator=evaluator)

    def percent(self, hyperparameter: str) -> str:
        """Importance of a hyperparameter, in words."""
        return f"{100 * self.importances[hyperparameter]:.1f} %"

    def study(self, most: int | None = None) -> optuna.Study:
        """Trials that reached the epoch, complete, the best one last: it is drawn over the others.

        Args:
            most: of more, the best quarter of so many is in it, and the others evenly.
        """
        kept = self.best_first if most is None else _evenly(self.best_first, most)
        trials = [self._trial(number) for number in reversed(kept)]
        study = optuna.create_study(direction=self.objective.direction)
        study.add_trials(trials)
        return study

    def _trial(self, number: int) -> optuna.trial.FrozenTrial:
        params = {name: v for name, v in self.tried.params[number].items() if name in self.tried.ranges}
        ranges = {name: self.tried.ranges[name] for name in params}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a value between two steps: it was tried all the same
            return create_trial(
                state=TrialState.COMPLETE,
                value=self.scores[number],
                params=params,
                distributions=ranges,
                user_attrs={"number": number},
            )


@dataclass(frozen=True)
class Influence:
    """Which hyperparameters of a trainable showed no influence, and where that was looked for.

    At one fidelity it would not be safe to say: trials that went far are survivors, whose values of a
    hyperparameter that decided early are all alike, so that it seems to decide nothing; and the first epochs
    don't show what matters later. A hyperparameter is without influence where neither shows any.
    """

    at: Fidelity
    """What the figures show."""
    early: Fidelity
    """The last epoch that nearly all trials reached; mostly the same one without early stopping."""

    @property
    def without(self) -> list[str]:
        """Hyperparameters without influence at both, of those that all trials have: importances are shares
        of what all decide, so that a weak one seems to be nothing beside a strong one, and scores must not
        differ either.
        """
        return [
            hyperparameter
            for hyperparameter, share in self.at.importances.items()
            if max(share, self.early.importances.get(hyperparameter, 1.0)) < NO_INFLUENCE
            and all(hyperparameter in self.early.tried.params[number] for number in self.early.scores)
            and not any(_differs(there, hyperparameter) for there in (self.at, self.early))
        ]


def _differs(there: Fidelity, hyperparameter: str) -> bool:
    """Whether scores differ by a hyperparameter's value (Kruskal-Wallis)."""
    from scipy.stats import kruskal

    points = [(there.tried.params[number][hyperparameter], score) for number, score in there.scores.items()]
    groups: dict[ParamValue, list[float]] = {}
    for value, score in points:
        groups.setdefault(value, []).append(score)
    of_values = list(groups.values())
    if len(groups) > MOST_GROUPS and isinstance(
        there.tried.ranges[hyperparameter], FloatDistribution | IntDistribution
    ):
        ordered = [score for _, score in sorted(points)]
        ends = [len(ordered) * quarter // 4 for quarter in range(5)]
        of_values = [ordered[first:last] for first, last in itertools.pairwise(ends)]
    return len(of_values) > 1 and bool(kruskal(*of_values).pvalue < LIKE_CHANCE)


_Known = tuple[tuple[int, int], dict[tuple[str, int], Fidelity]]
_FOUND: WeakKeyDictionary[Record, _Known] = WeakKeyDictionary()
"""Of a record as far as it was, what was found by trainable and epoch: importances and studies take time."""


def trainables(record: Record) -> list[str]:
    """What its trials trained, as it was named to the sweep."""
    return list(dict.fromkeys(trial.trainable for trial in record.searched))


def fidelity(record: Record, trainable: str | None = None) -> Fidelity | None:
    """The highest epoch that enough trials reached; None while there is no score. In a small sweep two thirds
    are enough: one trial that broke down early must not decide for all.

    Args:
        record: what was tried.
        trainable: of several, the one whose trials are meant; None for all.
    """
    trials = _trials(record, trainable)
    reached = _reached(trials)
    if not reached:
        return None
    enough = max(ENOUGH, math.ceil(ENOUGH_SHARE * len(trials)))
    enough = min(enough, math.ceil(MOST_SHARE * max(reached.values())))
    return _at(record, trainable, max(epoch for epoch, times in reached.items() if times >= enough))


def influence(record: Record, trainable: str) -> Influence | None:
    """What the trials of a trainable say of its hyperparameters; None where they can't say which are
    without."""
    trials = [t for t in _trials(record, trainable) if t.status not in ("failed", "diverged")]
    needed = max(LEAST_TO_FIX, math.ceil(NEARLY_ALL * len(trials)))
    common = max((epoch for epoch, times in _reached(trials).items() if times >= needed), default=None)
    at = fidelity(record, trainable)
    if at is None or common is None or not at.importances:
        return None
    return Influence(at, _at(record, trainable, common))


def _trials(record: Record, trainable: str | None) -> list[TrialRow]:
    return [trial for trial in record.searched if trainable in (None, trial.trainable)]


def _reached(trials: Sequence[TrialRow]) -> Counter[int]:
    """Epoch to how many trials have a finite score there."""
    return Counter(e for trial in trials for e, row in trial.epochs.items() if math.isfinite(row.score))


def _at(record: Record, trainable: str | None, epoch: int) -> Fidelity:
    """The trials with a finite score at an epoch, made once."""
    state = (len(record.trials), sum(len(trial.epochs) for trial in record.trials))
    if _FOUND.get(record, (None,))[0] != state:
        _FOUND[record] = (state, {})
    which = "" if trainable is None or len(trainables(record)) == 1 else trainable
    known = _FOUND[record][1]
    if (which, epoch) not in known:
        trials = _trials(record, which or None)
        scores = {t.number: t.epochs[epoch].score for t in trials if epoch in t.epochs}
        finite = {number: score for number, score in scores.items() if math.isfinite(score)}
        known[which, epoch] = Fidelity(epoch, finite, tried(trials), record.objective, len(trials))
    return known[which, epoch]


def tried(trials: Sequence[TrialRow]) -> Tried:
    """What trials tried, and the ranges of that.

    A hyperparameter that Optuna has no word for (`sample_from`, a normal distribution) has the range of its
    values.
    """
    params = {trial.number: _named(trial) for trial in trials}
    told: dict[str, list[BaseDistribution]] = {}
    for trial in trials:
        for name, distribution in trial.optuna.distributions.items():
            if distribution not in (known := told.setdefault(name, [])):
                known.append(distribution)
    values: dict[str, dict[ParamValue, None]] = {}
    for of_trial in params.values():
        for name, value in of_trial.items():
            values.setdefault(name, {})[value] = None
    varied = {
        name: list(of_hyperparameter)
        for name, of_hyperparameter in values.items()
        if len(of_hyperparameter) > 1
    }
    return Tried(
        params,
        {
            name: _range(told.get(name, []), of_hyperparameter)
            for name, of_hyperparameter in sorted(varied.items())
        },
    )


def _named(trial: TrialRow) -> dict[str, ParamValue]:
    """Its swept hyperparameters as the space names them (of several trainables: `fashion_cnn.lr`)."""
    named = dict(trial.optuna.params)
    prefix = f"{trial.trainable}." if "trainable" in named and "trainable" not in trial.params else ""
    return named | {
        f"{prefix}{name}": value
        for name, value in trial.params.items()
        if name not in named and f"{trial.trainable}.{name}" not in named
    }


def _range(told: Sequence[BaseDistribution], values: Sequence[ParamValue]) -> BaseDistribution:
    """One range for a hyperparameter: of all that it was given, or of its values."""
    ranges = [d for d in told if isinstance(d, FloatDistribution | IntDistribution)]
    if ranges and len(ranges) == len(told):
        low, high, log = min(r.low for r in ranges), max(r.high for r in ranges), any(r.log for r in ranges)
        if all(isinstance(r, IntDistribution) for r in ranges):
            return IntDistribution(int(low), int(high), log=log)
        return FloatDistribution(low, high, log=log)
    if not told and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        numbers: list[Any] = list(values)
        return FloatDistribution(float(min(numbers)), float(max(numbers)))
    listed = [c for d in told if isinstance(d, CategoricalDistribution) for c in d.choices]
    return CategoricalDistribution(list(dict.fromkeys([*listed, *values])))


def _evenly(numbers: Sequence[int], most: int) -> list[int]:
    if len(numbers) <= most:
        return list(numbers)
    best, others = numbers[: most // 4], numbers[most // 4 :]
    step = len(others) / (most - len(best))
    return [*best, *(others[int(index * step)] for index in range(most - len(best)))]
