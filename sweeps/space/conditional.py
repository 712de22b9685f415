"""A space of a function `suggest(trial)`, in Optuna's define-by-run style, of dependent hyperparameters.

The function is called with sampled values before anything runs; the plan shows the ranges that these samples
had. A later point is valid only if it follows the same rules.
"""

from __future__ import annotations

import dataclasses
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FixedTrial

from sweeps.common.errors import UserError, place_in, refuse
from sweeps.common.param_types import (
    fixed_defaults,
    given,
    given_fault,
    held,
    hints_of,
    refusal,
    shown,
    type_fault,
    unknown,
)
from sweeps.common.yaml_values import ParamValue
from sweeps.config import plugins
from sweeps.space.domain import Form
from sweeps.space.flat import SWEPT_AND_FIXED
from sweeps.space.numeric_range import Range
from sweeps.space.optuna_space import choices_of, range_of
from sweeps.space.point import InvalidPoint, Point, Space, Suggests, TrialProxy, suggested

SAMPLES = 200
"""Points that are sampled before the start."""

Define = Callable[[Any], object]
"""A user's `suggest`."""


class _RecordingTrial(TrialProxy):
    """The trial that a user's `suggest` gets: it suggests values, records them, and can do nothing else.

    Args:
        trial: that is asked. Of choices, it gets those that a sweep holds; the user's code gets its own back.
    """

    def __init__(self, trial: Suggests, hints: Mapping[str, Any]) -> None:
        self._trial = trial
        self._hints = hints
        self.params: dict[str, Any] = {}
        self.kinds: dict[str, str] = {}
        """What of each hyperparameter must be the same in all points: Optuna can't model it otherwise."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"trial.{name}: a space has suggest_float, suggest_int and suggest_categorical of a trial"
        )

    def _number(self, name: str, asked: Range) -> float:
        call = f"suggest_{'int' if asked.is_whole else 'float'}({name!r}, {asked.low!r}, {asked.high!r})"
        value = self._answered(name, call, lambda: suggested(self._trial, name, asked))
        self.kinds[name] = f"{'int' if asked.is_whole else 'float'}{', log' if asked.is_log else ''}"
        return float(value)

    def _choice(self, name: str, choices: Sequence[Any]) -> Any:
        of_sweep = choices = list(choices)
        if name in self._hints:
            for value in choices:
                if fault := given_fault(value, self._hints[name]):
                    raise InvalidPoint({name: f"{name}: {value!r}: {fault}"})
            of_sweep = [held(value, self._hints[name]) for value in choices]
        call = f"suggest_categorical({name!r}, {of_sweep!r})"
        value = self._answered(name, call, lambda: self._trial.suggest_categorical(name, of_sweep))
        self.kinds[name] = f"choice of {of_sweep}"
        return choices[of_sweep.index(value)]

    def _answered(self, name: str, call: str, ask: Callable[[], Any]) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a step that does not divide the range, say
                value = ask()
        except (ValueError, TypeError) as error:
            raise InvalidPoint({name: f"{name}: {call}: {error}"}) from None
        self.params[name] = value
        return value


@dataclass(frozen=True)
class Seen:
    """A hyperparameter in the samples."""

    distributions: tuple[BaseDistribution, ...]
    share: float
    """Share of the samples that had it."""

    def __str__(self) -> str:
        """Its range, the hull of those that it had, and how many points have it."""
        choices = ", ".join(map(shown, choices_of(self.distributions)))
        words = str(range_of(self.distributions) or f"one of {choices}")
        if len(set(self.distributions)) > 1:
            words = f"within {words}, depending on other hyperparameters"
        return words if self.share == 1 else f"{words}, in {max(1, round(100 * self.share))} % of points"


@dataclass(frozen=True)
class ConditionalSpace(Space):
    """The `suggest` of a file, what its samples had, and the fixed hyperparameters."""

    define: Define
    fixed: Mapping[str, ParamValue]
    """Every field of Params that no sample had, with its value."""
    given: frozenset[str]
    """Hyperparameters that --params fixes."""
    params_class: Any
    """Params of the trainable."""
    trainable: str = ""
    """Its name, as it was given to the sweep."""
    kinds: dict[str, str] = dataclasses.field(default_factory=dict)
    """As `_RecordingTrial.kinds`, of each hyperparameter in the first point that had it."""
    seen: Mapping[str, Seen] = dataclasses.field(default_factory=dict)
    dimensions: int = 0

    is_conditional = True
    has_code = True

    def draw(self, seeds: tuple[int, ...]) -> Point:
        return self.suggest(random_trial(seeds))

    def suggest(self, trial: Suggests) -> Point:
        asked = _RecordingTrial(trial, hints_of(self.params_class))
        try:
            returned = self.define(asked)
        except InvalidPoint:
            raise
        except (Exception, SystemExit) as error:  # it is the user's code
            line = place_in("".join(traceback.format_exception(error)))
            raise InvalidPoint({f"line{line}": f"suggest: {type(error).__name__}: {error}{line}"}) from None
        if returned is not None:
            text = (
                "it must return nothing: a hyperparameter is a trial.suggest_... call, or fixed by --params"
            )
            raise InvalidPoint({"returned": f"suggest returned {returned!r}; {text}"})
        return self._point(asked)

    def with_values_of(self, point: Point) -> Point:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a value out of its range
            return self.suggest(FixedTrial({**point.fixed, **point.params}))

    def describe(self) -> dict[str, str]:
        """Hyperparameter to the range that the samples had, and how many of them had it."""
        return {name: str(seen) for name, seen in self.seen.items()}

    def exactly(self) -> dict[str, str]:
        """Empty: the code of the file is compared instead."""
        return {}

    def _point(self, asked: _RecordingTrial) -> Point:
        values, hints = asked.params, hints_of(self.params_class)
        faults: dict[str, str] = {}
        for name, value in values.items():
            if name not in hints:
                faults[name] = f"{name}: {unknown(name, hints)}"
            elif name in self.given:
                faults[name] = f"{name}: {SWEPT_AND_FIXED}"
            elif fault := type_fault(value, hints[name]):
                faults[name] = f"{name}: {value!r}: {fault}"
            elif (kind := asked.kinds[name]) != (first := self.kinds.setdefault(name, kind)):
                faults[name] = (
                    f"{name}: it changes from point to point: {first}, then {kind}. Only a range may change; "
                    "take a hyperparameter for each kind or list of choices"
                )
        if faults:
            raise InvalidPoint(faults)
        params = {name: held(value, hints[name]) for name, value in values.items()}
        fixed = {name: value for name, value in self.fixed.items() if name not in params}
        if fault := refusal(self.params_class, {**fixed, **params}):
            suggested = ", ".join(f"{name}={value}" for name, value in params.items())
            raise InvalidPoint({"Params": f"suggest gave {suggested}: {fault}"})
        return Point(self.trainable, params, fixed)


def check(
    define: Define,
    params_class: Any,
    fixed: Mapping[str, Any],
    takes: frozenset[Form],
    searcher: str,
    trainable: str = "",
) -> ConditionalSpace:
    """A user's `suggest`, sampled and checked against Params.

    Raises:
        UserError: all faults at once, one a line.
    """
    refuse_searcher("suggest", takes, searcher)
    values, wrong = given(params_class, fixed)
    refuse(wrong)
    space = ConditionalSpace(define, values, frozenset(values), params_class, trainable)
    seen, dimensions = _sample(space)
    fields = fixed_defaults(params_class) | values
    fixed = {name: value for name, value in fields.items() if name not in seen}
    return dataclasses.replace(space, fixed=fixed, seen=seen, dimensions=dimensions)


def refuse_searcher(what: str, takes: frozenset[Form], searcher: str) -> None:
    """Raises: UserError, where a searcher can't take what is conditional."""
    if "conditional" not in takes:
        able = plugins.searchers_that_take("conditional")
        raise UserError(
            f"{what}: searcher {searcher} can't take a space whose hyperparameters depend on one another. "
            f"Searchers that can: {', '.join(able)}"
        )


def random_trial(seeds: tuple[int, ...]) -> optuna.Trial:
    """A trial that suggests random values; the same seeds give the same values."""
    seed = int(np.random.SeedSequence(seeds).generate_state(1)[0])
    return optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed)).ask()


def _sample(space: ConditionalSpace) -> tuple[dict[str, Seen], int]:
    """Each hyperparameter in samples of the space, and the most hyperparameters that a sample had."""
    faults: dict[str, str] = {}
    found: dict[str, list[BaseDistribution]] = {}
    dimensions = 0
    for number in range(SAMPLES):
        trial = random_trial((0, number))
        try:
            point = space.suggest(trial)
        except InvalidPoint as refused:
            faults = {**refused.faults, **faults}
            continue
        dimensions = max(dimensions, len(point.params))
        for name, distribution in trial.distributions.items():
            found.setdefault(name, []).append(distribution)
        if fault := _fault_of_replay(space, point, trial):
            faults.setdefault("again", fault)
    if not found and not faults:
        call = "trial.suggest_float('lr', 1e-3, 0.1)"
        faults["nothing"] = f"suggest: it must suggest at least one hyperparameter, such as {call}"
    refuse([*faults.values()])
    return {name: Seen(tuple(each), len(each) / SAMPLES) for name, each in found.items()}, dimensions


def _fault_of_replay(space: ConditionalSpace, point: Point, asked: optuna.Trial) -> str:
    """Why a point is not a function of its values alone; "" when it is."""
    replay = FixedTrial(dict(point.params))
    first: dict[str, Any] = dict(point.params)
    try:
        again: dict[str, Any] = dict(space.suggest(replay).params)
    except InvalidPoint as refused:
        again = {"error": str(refused)}
    if again == first:  # the values; the ranges must be the same too
        first, again = dict(asked.distributions), dict(replay.distributions)
    if again == first:
        return ""
    return f"suggest: the same values gave {first}, then {again}; it must depend on the trial's values alone"
