"""The models of a sweep: one, or several that compete for the same budget as one conditional space."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import numpy as np

from sweeps import conditional, data, ranges, space
from sweeps.common.errors import UserError
from sweeps.common.yaml_values import Knob, nearest
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.points import Point, Space, Suggests
from sweeps.training.data.dataset import DataSet, describe_data

OneSpace = space.FlatSpace | conditional.ConditionalSpace
"""What is tried of one model."""


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


@dataclass(frozen=True)
class SeveralSpaces:
    """The spaces of several models: first which model, then its point.

    Knobs of the same name mean different things in different models, so Optuna is told of each as
    `MODEL.KNOB`.
    """

    spaces: Mapping[str, OneSpace]

    is_conditional = True

    @property
    def dimensions(self) -> int:
        return 1 + max(each.dimensions for each in self.spaces.values())

    def draw(self, seeds: tuple[int, ...]) -> Point:
        """A point of one of the models, each as likely."""
        # A stream of its own: the choice must tell nothing of the values that the same seeds draw.
        generator = np.random.default_rng(np.random.SeedSequence(seeds, spawn_key=(1,)))
        return list(self.spaces.values())[generator.integers(len(self.spaces))].draw(seeds)

    def grid(self) -> Iterator[Point]:
        """The grids one after another."""
        return itertools.chain.from_iterable(each.grid() for each in self.spaces.values())

    def size(self) -> float:
        return sum(each.size() for each in self.spaces.values())

    def suggest(self, trial: Suggests) -> Point:
        """The model that a trial suggests, and the point that it suggests of that one."""
        name = trial.suggest_categorical("trainable", list(self.spaces))
        return self.spaces[name].suggest(_Prefixed(trial, f"{name}."))

    def names(self, point: Point) -> dict[str, Knob]:
        """The model, and its knobs with its name before them."""
        of_model = self.spaces[point.trainable].names(point)
        return {
            "trainable": point.trainable,
            **{f"{point.trainable}.{name}": value for name, value in of_model.items()},
        }


class _Prefixed:
    """A trial that is asked for the knobs of one model."""

    def __init__(self, trial: Suggests, prefix: str) -> None:
        self._trial = trial
        self._prefix = prefix

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        return self._trial.suggest_float(self._prefix + name, low, high, step=step, log=log)

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        return self._trial.suggest_int(self._prefix + name, low, high, step=step, log=log)

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        return self._trial.suggest_categorical(self._prefix + name, choices)


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


def metric_and_mode(config: SweepConfig, models: Sequence[Model]) -> tuple[str, Literal["min", "max"]]:
    """What all models are judged by.

    Raises:
        UserError: they do not agree, or only one of the two was given.
    """
    metric = config.metric or _agreed(models, "METRIC", "--metric (each must log it) and --mode")
    if config.mode is not None:
        return metric, config.mode
    if any(metric != model.module.METRIC for model in models):
        raise UserError(f"--metric {metric}: give --mode too: is a small (min) or a large (max) one good?")
    return metric, "min" if _agreed(models, "MODE", "--mode") == "min" else "max"


def _agreed(models: Sequence[Model], what: str, remedy: str) -> str:
    said = {model.name: str(getattr(model.module, what)) for model in models}
    if len(set(said.values())) > 1:
        each = ", ".join(f"{value} of {name}" for name, value in said.items())
        raise UserError(f"--trainable: {what} differs: {each}. Give {remedy}.")
    return next(iter(said.values()))


def _model(config: SweepConfig, name: str, space_name: str, searcher: ModuleType) -> Model:
    trainable = plugins.find("trainable", name)
    if not config.search_spaces and "." in name and not {"SPACE", "suggest"} & set(vars(trainable)):
        raise UserError(
            f"--trainable {name}: give --search-space too, or define SPACE or suggest(trial) beside Params"
        )
    file = plugins.find("search_space", space_name)
    checked = _space(config, name, trainable, file, searcher)
    prepared = data.wanted(name, trainable, checked)
    about_data = describe_data(name, trainable, trainable.Params(**checked.fixed))
    return Model(name, trainable, space_name, checked, about_data, prepared)


def _space(
    config: SweepConfig, name: str, trainable: ModuleType, file: ModuleType, searcher: ModuleType
) -> OneSpace:
    fixed, narrower = own(config.params, name), own(config.ranges, name)
    rest = (searcher.TAKES, config.searcher, name)
    if hasattr(file, "suggest"):
        if narrower:
            raise UserError(
                f"--ranges {' '.join(narrower)}: {file.__name__} is a function suggest(trial), whose ranges "
                "are its own; change them there"
            )
        return conditional.check(file.suggest, trainable.Params, fixed, *rest)
    if not narrower or not isinstance(file.SPACE, Mapping):
        return space.check(file.SPACE, trainable.Params, fixed, *rest)
    domains, still = ranges.applied(file.SPACE, narrower, searcher.TAKES)
    return space.check(domains, trainable.Params, {**still, **fixed}, *rest)


def own(given: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Of --params or --ranges, what goes to a model: knobs by themselves, then those with its name before
    them."""
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
