"""The models of a sweep: one, or several that compete for the same budget as one conditional space."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sweeps.common.errors import CannotTrain, UserError, collecting, reason_of, refuse
from sweeps.common.objective import Objective, Objectives, split
from sweeps.common.param_types import build_params
from sweeps.common.yaml_values import nearest
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.kinds import registry
from sweeps.kinds.lightning import STATIC_METRICS
from sweeps.kinds.registry import is_project
from sweeps.kinds.trainable import Trainable
from sweeps.search.search_method import SearchMethod
from sweeps.space import composite, conditional, flat, overrides
from sweeps.space.composite import OneSpace, SeveralSpaces
from sweeps.space.point import InvalidPoint, Space
from sweeps.space.user_points import Baseline, baseline
from sweeps.storage import datasets
from sweeps.training.data.dataset import DataSet


@dataclass(frozen=True)
class Model:
    """One of the models of a sweep, with its space and its data."""

    trainable: Trainable
    space_name: str
    space: OneSpace
    data: str
    """A line about its data; "" where there is none."""
    prepared: tuple[DataSet, ...] = ()
    """The prepared data sets that its points need."""
    prior: Mapping[str, Any] = field(default_factory=dict)
    """Where good values are believed to be, as PRIOR of its file says."""

    @property
    def name(self) -> str:
        """As it was given to the sweep."""
        return self.trainable.name

    def params_of(self, values: Mapping[str, Any]) -> Any:
        """Its Params with these values."""
        return build_params(self.trainable.params_class, values)

    def options(self) -> dict[str, list[Any]]:
        """Of its groups, those that its points may have."""
        space = self.space
        domains = space.domains if isinstance(space, flat.FlatSpace | composite.GroupSpace) else {}
        return {
            name: (domains[name].choices or []) if name in domains else [self.space.fixed.get(name, known[0])]
            for name, known in self.trainable.groups.items()
        }

    def combinations(self) -> list[dict[str, Any]]:
        """Of its options."""
        options = self.options()
        return [dict(zip(options, each, strict=True)) for each in itertools.product(*options.values())]

    def baseline(self) -> Baseline:
        """Its defaults as a point."""
        of = self.trainable
        try:
            return baseline(self.space, of.called, of.defaults(), of.prepare_params)
        except CannotTrain as why:
            return Baseline(of.name, why_not=str(why))

    def static_metrics(self, params: Mapping[str, Any]) -> Mapping[str, float]:
        """What is known of a point before it is trained.

        Raises:
            CannotTrain: the user's function raises, or returns something else.
        """
        try:
            return self.trainable.static_metrics(self.params_of(params))
        except CannotTrain:
            raise
        except (Exception, SystemExit) as error:  # of the user's function
            raise CannotTrain(f"{STATIC_METRICS} raises {reason_of(error)}") from None


def find(
    config: SweepConfig, searcher: type[SearchMethod], known: Mapping[str, Trainable]
) -> tuple[Model, ...]:
    """The models of a sweep, with checked spaces and their data.

    Args:
        known: trainables that were found before, by name.

    Raises:
        UserError: what does not fit, of all models at once.
    """
    names = config.trainables
    if len(names) > 1 and (alone := next(filter(is_project, names), None)):
        raise UserError(f"--trainable {' '.join(names)}: {alone} can't compete with other models")
    if len(names) > 1 and "several" not in searcher.TAKES:
        able = plugins.searchers_that_take("several")
        raise UserError(
            f"--trainable {' '.join(names)}: searcher {config.searcher} takes one trainable. "
            f"Searchers that take several: {', '.join(able)}"
        )
    found: list[Model] = []
    faults = _faults_of_params(config)
    for name, space_name in zip(names, config.search_spaces or names, strict=True):
        with collecting(faults, "" if len(names) == 1 else f"{name}: "):
            trainable = known.get(name) or registry.find(name)
            found.append(_model(config, trainable, space_name, searcher))
    refuse([_as_typed_there(fault, config) for fault in faults])
    return tuple(found)


def trainables(config: SweepConfig) -> dict[str, Trainable]:
    """The trainables of a sweep by name, without those that can't be found: `find` says why."""
    found: dict[str, Trainable] = {}
    for name in config.trainables:
        with suppress(UserError):
            found[name] = registry.find(name)
    return found


def whole(models: Sequence[Model]) -> Space:
    """The space of all models together."""
    if len(models) == 1:
        return models[0].space
    return SeveralSpaces({model.name: model.space for model in models})


def sampled(models: Sequence[Model]) -> dict[str, dict[str, str]]:
    """The sampled ranges of spaces that are functions, as in the plan, by model."""
    return {
        model.name: model.space.describe()
        for model in models
        if isinstance(model.space, conditional.ConditionalSpace)
    }


def objectives(config: SweepConfig, models: Sequence[Model]) -> Objectives:
    """The objectives of all models.

    Raises:
        UserError: METRIC or MODE differs between models, or --metric was given without --mode.
    """
    if len(config.metrics) > 1:
        return Objectives.parse(config.metrics)
    own = {model.name: model.trainable.objective for model in models}
    metrics = {name: each.metric if each else "" for name, each in own.items()}
    modes: dict[str, str] = {name: each.mode if each else "" for name, each in own.items()}
    given = next(iter(config.metrics), None)
    metric, mode = split(given or _agreed(metrics, "METRIC", "--metric (each must log it) and --mode"))
    if not metric:
        raise UserError(
            "--metric: give the metric by which trials are compared, and its --mode. "
            f"{models[0].trainable.called} names none"
        )
    mode = config.mode or mode
    if not mode and any(metric != each for each in metrics.values()):
        near = nearest(metric, filter(None, metrics.values()))
        raise UserError(
            f"--metric {metric}:{f'{near} Else' if near else ''} give --mode too: min if small values are "
            "good, max if large"
        )
    mode = mode or _agreed(modes, "MODE", "--mode")
    return Objectives((Objective(metric, "min" if mode == "min" else "max"),))


def check_static_metrics(config: SweepConfig, models: Sequence[Model]) -> None:
    """Call each `static_metrics` once, at a point of the space.

    Raises:
        UserError: it raises, or does not return numbers; or the first objective is one of its metrics.
    """
    first = config.objective.metric
    for model in models:
        params: Mapping[str, Any] = model.space.fixed
        with suppress(InvalidPoint):
            point = model.space.draw((0, 0))
            params = {**point.fixed, **point.params}
        try:
            known = model.static_metrics(params)
        except CannotTrain as error:
            raise UserError(f"--trainable {model.name}: {error}") from None
        if first in known:
            raise UserError(
                f"--metric {first}: {STATIC_METRICS} of {model.name} knows it, so it is the same in all "
                "epochs of a trial. The first metric decides which epoch counts: name one that training "
                "improves first"
            )


def _agreed(values: Mapping[str, str], what: str, remedy: str) -> str:
    if len(set(values.values())) > 1:
        each = ", ".join(f"{value} of {name}" for name, value in values.items())
        raise UserError(f"--trainable: {what} differs: {each}. Give {remedy}.")
    return next(iter(values.values()))


def _model(config: SweepConfig, trainable: Trainable, space_name: str, searcher: type[SearchMethod]) -> Model:
    name = trainable.name
    params, ranges = own(config.params, name), own(config.ranges, name)
    given = [("--params", each) for each in params] + [("--ranges", each) for each in ranges]
    faults = [f"{flag} {each}: {why}" for flag, each in given if (why := trainable.why_not(each))]
    if config.resume is None:  # one that has begun goes on with the value of --params
        faults += [f"--ranges {each}: --params fixes it, too; give one" for each in ranges if each in params]
    if config.resume is None or "ranges" in config.typed:  # another one goes on in the range that it had
        dotted = {each: text for each, text in ranges.items() if overrides.has_three_dots(text)}
        faults += [f"--ranges {each}={text}: must be two numbers, LOW..HIGH" for each, text in dotted.items()]
    refuse(faults)
    file = plugins.space_of(space_name, trainable, bool(ranges))
    rest = (trainable.params_class, params, searcher.TAKES, str(config.searcher), name)
    space: OneSpace
    of_groups = None
    if trainable.groups:
        of_groups = composite.check_groups(ranges, trainable.groups, trainable.hyperparameters_with, *rest)
    if of_groups is not None:
        space = of_groups
    elif file is None or file.suggest is None:
        space = flat.check({} if file is None else file.ranges, *rest, ranges)
    elif ranges:
        raise UserError(
            f"--ranges {' '.join(ranges)}: {file.name} is a function suggest(trial), whose ranges "
            "are its own; change them there"
        )
    else:
        space = conditional.check(file.suggest, *rest)
    known = {*space.fixed, *(space.domains if isinstance(space, flat.FlatSpace) else ())}
    refuse(
        [
            f"{each}: {trainable.called} has no default for it: give a range, or --params {each}=VALUE."
            f"{nearest(each, trainable.own_names)}"
            for each in trainable.without_default
            if each not in known
        ]
    )
    prepared = datasets.find_data_sets(trainable, space)
    fixed = build_params(trainable.params_class, space.fixed)
    refuse(trainable.faults_of_options(fixed) + trainable.faults_of_settings(config.given()))
    data = trainable.describe_data(fixed)
    prior = trainable.prior if file is None else file.prior
    return Model(trainable, space_name, space, data, prepared, _prior(prior, space))


def _prior(given: Any, space: OneSpace) -> dict[str, Any]:
    """PRIOR of a file, without what this sweep has fixed.

    Raises:
        UserError: it is no dict.
    """
    if given is not None and not isinstance(given, Mapping):
        raise UserError("PRIOR must be a dict of values by hyperparameter, such as {'lr': 1e-3}")
    return {name: each for name, each in (given or {}).items() if name not in space.fixed}


def _as_typed_there(fault: str, config: SweepConfig) -> str:
    """A fault of a range, which names --freeze where that has given it."""
    for name in config.freeze:
        if re.search(rf"--ranges {re.escape(name)}[=: ]", fault):
            return fault.replace("--ranges", "--freeze").replace(f"{overrides.FORMS}, or ", "")
    return fault


def own(given: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The part of --params or --ranges for a model: names without a model, then those of this model.

    In a project of an adapter, names are paths of its settings.
    """
    if is_project(model):
        return dict(given)
    split = [(*name.rpartition(".")[::2], value) for name, value in given.items()]
    return {name: value for of in ("", model) for prefix, name, value in split if prefix == of}


def _faults_of_params(config: SweepConfig) -> list[str]:
    names = config.trainables
    if any(map(is_project, names)):
        return []
    return [
        f"{flag} {name}: no such trainable in this sweep.{nearest(model, names)} Choices: {', '.join(names)}"
        for flag, given in (("--params", config.params), ("--ranges", config.ranges))
        for name in given
        if (model := name.rpartition(".")[0]) and model not in names
    ]
