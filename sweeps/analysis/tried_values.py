"""What trials tried: their values, and the ranges of these."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from sweeps.common.yaml_values import ParamValue
from sweeps.record.trials import TrialRow
from sweeps.space.numeric_range import Range
from sweeps.space.optuna_space import choices_of, range_of


@dataclass(frozen=True)
class Tried:
    """What trials tried, by the names that the space asks for."""

    params: Mapping[int, Mapping[str, ParamValue]]
    """Of each trial, by its number."""
    ranges: Mapping[str, BaseDistribution]
    """Of each hyperparameter that has more than one value, over all trials."""


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
    are_numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    if not distributions and are_numbers:
        numbers = Range(float(min(values)), float(max(values)))
    elif numbers is not None and are_numbers:  # what the user chose, or fixed later, may lie beyond
        low, high = min(numbers.low, *values), max(numbers.high, *values)
        numbers = dataclasses.replace(numbers, low=low, high=high, is_log=numbers.is_log and low > 0)
    if numbers is None or not are_numbers:
        return CategoricalDistribution(list(dict.fromkeys([*choices_of(distributions), *values])))
    if numbers.is_whole:
        return IntDistribution(int(numbers.low), int(numbers.high), log=numbers.is_log)
    return FloatDistribution(numbers.low, numbers.high, log=numbers.is_log)


def distributions_of(
    trials: Sequence[TrialRow], with_trainable: bool = False
) -> dict[str, list[BaseDistribution]]:
    """Hyperparameter, by Optuna's name, to the distributions that it was drawn from.

    Args:
        trials: all that are meant.
        with_trainable: whether the choice of one of several trainables counts as one.
    """
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
