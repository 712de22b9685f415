"""Points and ranges as Optuna has them. Beside `point.py`, which a trial's process imports without Optuna."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Container, Iterable
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import FixedTrial, TrialState, create_trial

from sweeps.common.param_types import are_same
from sweeps.space.numeric_range import Range
from sweeps.space.point import InvalidPoint, OptunaPoint, Point, Space


def optuna_point(space: Space, point: Point) -> OptunaPoint:
    """A point's values and the distributions that `space` asks for with them.

    Raises:
        LookupError, ValueError: it is not a point of this space.
    """
    names = space.names(point)
    replay = FixedTrial(dict(names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a value out of range: `create_trial` refuses it
        space.suggest(replay)
    if missing := names.keys() - replay.params.keys():
        raise InvalidPoint({name: f"{name}: not a hyperparameter of this point" for name in missing})
    create_trial(state=TrialState.RUNNING, params=replay.params, distributions=replay.distributions)
    return OptunaPoint(replay.params, replay.distributions)


def point_within(space: Space, point: Point, ranges: Container[str] = ()) -> tuple[Point, OptunaPoint] | None:
    """A point as one of `space`, whose ranges may be others than those that it was drawn from; None where it
    lies outside.

    Args:
        space: as it is now.
        point: of the same sweep, or of one that it refines.
        ranges: names for which the sweep was given ranges, or values: what is fixed by these must be equal.
    """
    with contextlib.suppress(LookupError, ValueError):
        found = space.with_values_of(point)
        as_optuna = optuna_point(space, found)
        given = (name for name in point.fixed if name in ranges or f"{point.trainable}.{name}" in ranges)
        had = {**{name: point.fixed[name] for name in given}, **point.params}
        if all(are_same(found.fixed.get(name, value), value) for name, value in had.items()):
            return found, as_optuna
    return None


def range_of(distributions: Iterable[BaseDistribution]) -> Range | None:
    """The hull of distributions, with the choices of a grid that became a range; None of choices alone. It is
    of the scale and the steps of the first one, where it can be."""
    found: list[Any] = list(distributions)
    ranges = [each for each in found if not isinstance(each, CategoricalDistribution)]
    points = [value for each in found if each not in ranges for value in each.choices]
    if not ranges or any(isinstance(value, str | bool | None) for value in points):
        return None
    low = min([*points, *(each.low for each in ranges)])
    high = max([*points, *(each.high for each in ranges)])
    is_whole = all(isinstance(each, IntDistribution) for each in ranges)
    return Range(low, high, ranges[0].log and low > 0, ranges[0].step, is_whole)


def choices_of(distributions: Iterable[BaseDistribution]) -> list[Any]:
    """All choices of distributions, in their order; [] where one is a range."""
    found = [each.choices if isinstance(each, CategoricalDistribution) else () for each in distributions]
    if () in found:
        return []
    return list(dict.fromkeys(value for choices in found for value in choices))
