"""The models of a sweep: one, or several that compete for the same budget as one conditional space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from sweeps.common.errors import UserError
from sweeps.common.objective import Objective
from sweeps.common.yaml_values import nearest
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.space import conditional, flat
from sweeps.space.multi_model import OneSpace, SeveralSpaces
from sweeps.space.point import Space
from sweeps.storage import datasets
from sweeps.training.data.dataset import DataSet, describe_data


@dataclass(frozen=True)
class Model:
    """One of the models of a sweep, and what is tried of it."""

    name: str
    """As it was named to the sweep."""
    module: ModuleType
    """The trainable."""
    space_name: str
    space: OneSpace
    data: str
    """What it says of its data; "" where it says nothing."""
    prepared: tuple[DataSet, ...] = ()
    """The data sets that its points need, of a trainable whose data is prepared."""


def find(config: SweepConfig, searcher: ModuleType) -> tuple[Model, ...]:
    """The models that are asked for, their spaces checked, their data found.

    Raises:
        UserError: what does not fit, of all models at once.
    """
    names = config.trainables
    if len(names) > 1 and "several" not in searcher.TAKES:
        able = plugins.searchers_that_take("several")
        raise UserError(
            f"--trainable {' '.join(names)}: searcher {config.searcher} takes one trainable. "
            f"Searchers that take several: {', '.join(able)}"
        )
    found: list[Model] = []
    faults = _faults_of_params(config)
    for name, space_name in zip(names, config.search_spaces or names, strict=True):
        try:
            found.append(_model(config, name, space_name, searcher))
        except UserError as error:
            lines = str(error).splitlines()
            faults += lines if len(names) == 1 else [f"{name}: {line}" for line in lines]
    if faults:
        raise UserError("\n".join(faults))
    return tuple(found)


def whole(models: Sequence[Model]) -> Space:
    """What is tried of all of them."""
    if len(models) == 1:
        return models[0].space
    return SeveralSpaces({model.name: model.space for model in models})


def sampled(models: Sequence[Model]) -> dict[str, dict[str, str]]:
    """What the samples had of the spaces that are functions, as the plan shows it: by model."""
    return {
        model.name: model.space.describe()
        for model in models
        if isinstance(model.space, conditional.ConditionalSpace)
    }


def objective(config: SweepConfig, models: Sequence[Model]) -> Objective:
    """What all models are judged by.

    Raises:
        UserError: they do not agree, or only one of the two was given.
    """
    metric = config.fit.metric or _agreed(models, "METRIC", "--metric (each must log it) and --mode")
    if config.fit.mode is not None:
        return Objective(metric, config.fit.mode)
    if any(metric != model.module.METRIC for model in models):
        raise UserError(f"--metric {metric}: give --mode too: is a small (min) or a large (max) one good?")
    return Objective(metric, "min" if _agreed(models, "MODE", "--mode") == "min" else "max")


def _agreed(models: Sequence[Model], what: str, remedy: str) -> str:
    said = {model.name: str(getattr(model.module, what)) for model in models}
    if len(set(said.values())) > 1:
        each = ", ".join(f"{value} of {name}" for name, value in said.items())
        raise UserError(f"--trainable: {what} differs: {each}. Give {remedy}.")
    return next(iter(said.values()))


def _model(config: SweepConfig, name: str, space_name: str, searcher: ModuleType) -> Model:
    trainable = plugins.find("trainable", name)
    if config.search_spaces:
        file = plugins.find("search_space", space_name)
    else:
        file = plugins.space_of(name, trainable)
    checked = _space(config, name, trainable, file, searcher)
    prepared = datasets.wanted(name, trainable, checked)
    about_data = describe_data(name, trainable, trainable.Params(**checked.fixed))
    return Model(name, trainable, space_name, checked, about_data, prepared)


def _space(
    config: SweepConfig, name: str, trainable: ModuleType, file: ModuleType, searcher: ModuleType
) -> OneSpace:
    fixed, ranges = own(config.params, name), own(config.ranges, name)
    rest = (trainable.Params, fixed, searcher.TAKES, config.searcher, name)
    if not hasattr(file, "suggest"):
        return flat.check(file.SPACE, *rest, ranges)
    if ranges:
        raise UserError(
            f"--ranges {' '.join(ranges)}: {file.__name__} is a function suggest(trial), whose ranges "
            "are its own; change them there"
        )
    return conditional.check(file.suggest, *rest)


def own(given: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Of --params or --ranges, what goes to a model: names alone, then those with its name before."""
    for_all = {name: value for name, value in given.items() if "." not in name}
    named = {
        name.rpartition(".")[2]: value for name, value in given.items() if name.rpartition(".")[0] == model
    }
    return {**for_all, **named}


def _faults_of_params(config: SweepConfig) -> list[str]:
    names = config.trainables
    return [
        f"{flag} {name}: no such trainable here.{nearest(model, names)} Choices: {', '.join(names)}"
        for flag, given in (("--params", config.params), ("--ranges", config.ranges))
        for name in given
        if (model := name.rpartition(".")[0]) and model not in names
    ]
