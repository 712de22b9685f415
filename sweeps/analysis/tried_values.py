"""What trials tried: their values, and the ranges of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def distributions_of(
    trials: Sequence[TrialRow], with_trainable: bool = False
) -> dict[str, list[BaseDistribution]]:
    """Hyperparameter, by Optuna's name, to the distributions that it was drawn from.

    Args:
        trials: all that are meant.
        with_trainable: whether the choice of one of several trainables counts as one.
    """
    found: dict[str, dict[BaseDistribution, None]] = {}
    for trial in trials:
        for name, distribution in trial.optuna.distributions.items():
            if with_trainable or name != "trainable":
                found.setdefault(name, {})[distribution] = None
    return {name: list(distributions) for name, distributions in found.items()}
