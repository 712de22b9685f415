"""The prepared data sets that the points of a sweep need; they are made once, before any trial starts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from sweeps.common.errors import UserError
from sweeps.common.param_types import defaults_of, held, hints_of
from sweeps.common.yaml_values import ParamValue
from sweeps.kinds.trainable import Trainable
from sweeps.space.conditional import ConditionalSpace
from sweeps.space.flat import FlatSpace
from sweeps.space.optuna_space import choices_of, range_of
from sweeps.training.data import dataset
from sweeps.training.data.dataset import DataSet

MAX_DATA_SETS = 16
"""Data sets of one model, at most: each takes time and disk space."""


def find_data_sets(trainable: Trainable, space: FlatSpace | ConditionalSpace) -> tuple[DataSet, ...]:
    """The data sets that a model's points need, one for each way of preparing; () without preparation.

    Raises:
        UserError: the raw files are not there, or the space asks for too many data sets.
    """
    if trainable.preparation is None:
        return ()
    swept = [name for name in trainable.prepare_params if name not in space.fixed]
    if not swept:
        return (dataset.find_data_set(trainable, space.fixed),)
    every_way = itertools.product(*(_values(space, name) for name in swept))
    ways = list(itertools.islice(every_way, MAX_DATA_SETS + 1))
    if len(ways) > MAX_DATA_SETS:
        raise UserError(
            f"{', '.join(swept)}: data is prepared for each value (PREPARE_PARAMS of {trainable.name}), and "
            f"the space has more than {MAX_DATA_SETS} combinations. Give fewer values, or fix one with "
            "--params"
        )
    return tuple(
        dataset.find_data_set(trainable, {**space.fixed, **dict(zip(swept, way, strict=True))})
        for way in ways
    )


def describe(sets: Sequence[DataSet]) -> str:
    """One line for the plan: the raw files of a model, and how many data sets are still to be prepared."""
    first = sets[0]
    if len(sets) == 1:
        return first.describe()
    todo = sum(not each.is_there() for each in sets)
    done = f"to be prepared in {todo} of {len(sets)} ways" if todo else "prepared"
    return f"{done}, for each {' and '.join(first.hyperparameters)}: {first.source}"


def keys(sets: Sequence[DataSet]) -> dict[str, str]:
    """Each data set of a model to the checksum of its raw files, code and hyperparameters."""
    found = {}
    for each in sets:
        values = (f"{name}={value}" for name, value in each.hyperparameters.items())
        found[", ".join(["prepared data", *values])] = each.key[:16]
    return found


def _values(space: FlatSpace | ConditionalSpace, hyperparameter: str) -> list[ParamValue]:
    """All values that a point can have, of a conditional space by its samples."""
    found: Sequence[Any] | None
    if isinstance(space, FlatSpace):
        found = space.domains[hyperparameter].values()
    else:
        seen = space.seen[hyperparameter]
        if any(each != seen.distributions[0] for each in seen.distributions):
            raise UserError(_endless(hyperparameter, "changes its range from point to point"))
        one = range_of(seen.distributions)
        found = choices_of(seen.distributions) if one is None else one.values()
        if found is not None and seen.share < 1:  # a point without it trains with the default
            found = [*found, defaults_of(space.params_class)[hyperparameter]]
    if found is None:
        raise UserError(_endless(hyperparameter, "has endlessly many values"))
    hint = hints_of(space.params_class)[hyperparameter]
    return list(dict.fromkeys(held(value, hint) for value in found))


def _endless(hyperparameter: str, what: str) -> str:
    return (
        f"{hyperparameter}: data is prepared for each of its values (PREPARE_PARAMS), and in the space it "
        f"{what}. Give a choice or a range of whole numbers, or fix it with --params {hyperparameter}=VALUE"
    )
