"""The branches of a space that is a function, in words: which points have a hyperparameter, in which range.

Both are found in samples: a hyperparameter that is asked for before, and whose value alone decides them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution

from sweeps.common.formatting import short_value
from sweeps.common.param_types import shown
from sweeps.space.optuna_space import range_of

Sample = Mapping[str, tuple[Any, BaseDistribution]]
"""A point: each hyperparameter, in the order in which it was asked for, with its value and its range."""
MOST_BRANCHES = 4
"""Ranges of a hyperparameter that are listed one by one."""
SAMPLES_PER_VALUE = 5
"""Mean number of samples with the same value, from which it can be told what that value decides: every value
of a continuous range has one."""


def described(name: str, samples: Sequence[Sample]) -> str:
    """A hyperparameter in the samples of a space.

    `0.01 to 1`, `0.5 to 0.9; only with optimizer sgd (50 % of points)`, `0.01 to 0.1 with optimizer adam; 0.1
    to 1 with optimizer sgd`.
    """
    having = [sample for sample in samples if name in sample]
    words = _ranges(name, having)
    if len(having) == len(samples):
        return words
    share = f"{max(1, round(100 * len(having) / len(samples)))} % of points"
    if which := _decides(name, samples, lambda sample: name in sample):
        return f"{words}; only with {which} {_values(which, having)} ({share})"
    return f"{words}, in {share}"


def _ranges(name: str, having: Sequence[Sample]) -> str:
    """Its range, or the different ones that it has."""
    with_range: dict[BaseDistribution, list[Sample]] = {}
    for sample in having:
        with_range.setdefault(sample[name][1], []).append(sample)
    if len(with_range) == 1:
        return _one(with_range)
    which = _decides(name, having, lambda sample: sample[name][1])
    if which is None or len(with_range) > MOST_BRANCHES:
        return f"within {_one(with_range)}, depending on {which or 'other hyperparameters'}"
    each = [(_values(which, of), _one([range_])) for range_, of in with_range.items()]
    return "; ".join(f"{range_} with {which} {values}" for values, range_ in sorted(each, key=_natural))


def _one(distributions: Iterable[BaseDistribution]) -> str:
    """The choices, or the hull of ranges."""
    found = list(distributions)
    if isinstance(first := found[0], CategoricalDistribution):
        return f"one of {', '.join(map(shown, first.choices))}"
    return str(range_of(found))


def _decides(name: str, samples: Sequence[Sample], outcome: Callable[[Sample], Hashable]) -> str | None:
    """The first hyperparameter whose value alone decides an outcome for `name`; None where there is none."""
    before: dict[str, None] = {}
    for sample in samples:
        for other in sample:
            if other == name:
                break
            before[other] = None
    for other in before:
        outcomes: dict[Hashable, set[Hashable]] = {}
        for sample in samples:
            outcomes.setdefault(sample[other][:1] if other in sample else (), set()).add(outcome(sample))
        is_told = SAMPLES_PER_VALUE * len(outcomes) <= len(samples)
        if is_told and len(outcomes) > 1 and all(len(each) == 1 for each in outcomes.values()):
            return other
    return None


def _natural(each: tuple[str, str]) -> tuple[float, str]:
    """Order of values: numbers by their size, then words."""
    first = each[0].partition(",")[0].partition(" ")[0]
    try:
        return float(first), ""
    except ValueError:
        return math.inf, first


def _values(which: str, samples: Sequence[Sample]) -> str:
    """`sgd or adam`, `2, 4 or 8`."""
    values = dict.fromkeys(sample[which][0] for sample in samples if which in sample)
    is_of_numbers = all(isinstance(value, int | float) for value in values)
    *others, last = map(short_value, sorted(values) if is_of_numbers else values)
    return f"{', '.join(others)} or {last}" if others else last
