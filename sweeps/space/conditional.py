"""A space of a function `suggest(trial)`, in Optuna's define-by-run style, of dependent hyperparameters.

What it can give is not written down, so it is tried out before anything runs, and the plan shows what
was seen. What it gives later is a point only if it keeps to the same rules.
"""

from __future__ import annotations

import dataclasses
import math
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FixedTrial

from sweeps.common.errors import UserError
from sweeps.common.param_types import cast, given, hints_of, type_fault, unknown
from sweeps.common.yaml_values import ParamValue
from sweeps.config import plugins
from sweeps.space.domain import Form
from sweeps.space.flat import SWEPT_AND_FIXED
from sweeps.space.numeric_range import range_of
from sweeps.space.point import InvalidPoint, Point, Suggests

SAMPLES = 200
"""Points that are tried before the start."""

Define = Callable[[Any], object]
"""A user's `suggest`."""
Kind = tuple[str, bool, tuple[Any, ...]]
"""float, int or categorical, whether on a log scale, and the choices: what Optuna needs to stay the same."""


class Suggestions:
    """The trial that a user's `suggest` is given: it suggests, remembers, and can do nothing else."""

    def __init__(self, trial: Suggests) -> None:
        self._trial = trial
        self.params: dict[str, Any] = {}
        self.kinds: dict[str, Kind] = {}

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        value: float = self._ask("suggest_float", name, low, high, step=step, log=log)
        return value

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        value: int = self._ask("suggest_int", name, low, high, step=step, log=log)
        return value

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        return self._ask("suggest_categorical", name, choices)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"trial.{name}: a space has suggest_float, suggest_int and suggest_categorical of a trial"
        )

    def _ask(self, kind: str, name: str, *arguments: Any, **more: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a step that does not divide the range, say
                value = getattr(self._trial, kind)(name, *arguments, **more)
        except (ValueError, TypeError) as error:
            shown = ", ".join(map(repr, [name, *arguments]))
            raise InvalidPoint({name: f"{name}: {kind}({shown}): {error}"}) from None
        self.params[name] = value
        choices = tuple(arguments[0]) if kind == "suggest_categorical" else ()
        self.kinds[name] = kind.removeprefix("suggest_"), bool(more.get("log")), choices
        return value


@dataclass(frozen=True)
class Seen:
    """What the samples had of a hyperparameter."""

    distributions: tuple[BaseDistribution, ...]
    share: float
    """Of the samples, those that had it."""


@dataclass(frozen=True)
class ConditionalSpace:
    """`suggest` of a file, tried out, and the fixed hyperparameters."""

    define: Define
    fixed: Mapping[str, ParamValue]
    """Every field of Params that no sample had, with its value."""
    given: frozenset[str]
    """Those of them that --params fixes."""
    params_class: Any
    """Params of the trainable."""
    trainable: str = ""
    """As it was named to the sweep."""
    seen: Mapping[str, Seen] = dataclasses.field(default_factory=dict)
    dimensions: int = 0
    """Hyperparameters of a sample, at most."""

    is_conditional = True
    has_code = True

    def draw(self, seeds: tuple[int, ...]) -> Point:
        """One random point; the same seeds draw the same point.

        Raises:
            InvalidPoint: what `suggest` made of the values is none.
        """
        return self.suggest(random_trial(seeds))

    def grid(self) -> Iterator[Point]:
        """None: what `suggest` can give is not written down."""
        return iter(())

    def size(self) -> float:
        return math.inf

    def suggest(self, trial: Suggests) -> Point:
        """The point that `suggest` makes of what a trial suggests.

        Raises:
            InvalidPoint: it is none, and why.
        """
        asked = Suggestions(trial)
        try:
            returned = self.define(asked)
        except InvalidPoint:
            raise
        except (Exception, SystemExit) as error:  # it is the user's code
            line = _line(error)
            raise InvalidPoint({f"line{line}": f"suggest: {type(error).__name__}: {error}{line}"}) from None
        if returned is not None:
            text = "a hyperparameter is what trial.suggest_... is asked for, or --params"
            raise InvalidPoint({"returned": f"suggest returned {returned!r}; {text}"})
        return self._point(asked)

    def names(self, point: Point) -> dict[str, ParamValue]:
        """All hyperparameters of the point."""
        return dict(point.params)

    def describe(self) -> dict[str, str]:
        """Hyperparameter to the range that the samples had, and in what share of them it was."""
        return {name: _in_words(seen) for name, seen in self.seen.items()}

    def exactly(self) -> dict[str, str]:
        """Nothing: the file is compared."""
        return {}

    def _point(self, asked: Suggestions) -> Point:
        values, hints = asked.params, hints_of(self.params_class)
        faults: dict[str, str] = {}
        for name, value in values.items():
            if name not in hints:
                faults[name] = f"{name}: {unknown(name, hints)}"
            elif name in self.given:
                faults[name] = f"{name}: {SWEPT_AND_FIXED}"
            elif fault := type_fault(value, hints[name]):
                faults[name] = f"{name}: {value!r}: {fault}"
            elif name in self.seen and asked.kinds[name] != _kind(self.seen[name].distributions[0]):
                faults[name] = f"{name}: asked for in another way than in the samples before the start"
        if faults:
            raise InvalidPoint(faults)
        params = {name: cast(value, hints[name]) for name, value in values.items()}
        fixed = {name: value for name, value in self.fixed.items() if name not in params}
        try:
            self.params_class(**fixed, **params)
        except (ValueError, TypeError) as error:
            shown = ", ".join(f"{name}={value}" for name, value in params.items())
            raise InvalidPoint({"Params": f"suggest gave {shown}: {error}"}) from None
        return Point(self.trainable, params, fixed)


def check(
    define: Define,
    params_class: Any,
    fixed: Mapping[str, Any],
    takes: frozenset[Form],
    searcher: str,
    trainable: str = "",
) -> ConditionalSpace:
    """A user's `suggest`, tried out against Params.

    Raises:
        UserError: all faults at once, one a line.
    """
    if "conditional" not in takes:
        able = plugins.searchers_that_take("conditional")
        raise UserError(
            f"suggest: searcher {searcher} can't take a space whose hyperparameters depend on one another. "
            f"Searchers that can: {', '.join(able)}"
        )
    values, wrong = given(params_class, fixed)
    if wrong:
        raise UserError("\n".join(wrong))
    space = ConditionalSpace(define, values, frozenset(values), params_class, trainable)
    points, seen = _try_out(space)
    defaults = {f.name: getattr(params_class(), f.name) for f in dataclasses.fields(params_class)}
    still = {name: value for name, value in {**defaults, **values}.items() if name not in seen}
    return dataclasses.replace(
        space, fixed=still, seen=seen, dimensions=max(len(point.params) for point in points)
    )


def random_trial(seeds: tuple[int, ...]) -> optuna.Trial:
    """A trial whose values are drawn at random, the same ones of the same seeds."""
    seed = int(np.random.SeedSequence(seeds).generate_state(1)[0])
    return optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed)).ask()


def _try_out(space: ConditionalSpace) -> tuple[list[Point], dict[str, Seen]]:
    """Points of the space, and what each hyperparameter had there.

    Raises:
        UserError: what is wrong with them, the first of each kind.
    """
    faults: dict[str, str] = {}
    points: list[Point] = []
    had: dict[str, list[BaseDistribution]] = {}
    for number in range(SAMPLES):
        trial = random_trial((0, number))
        try:
            point = space.suggest(trial)
        except InvalidPoint as refused:
            faults = {**refused.faults, **faults}  # the first of a kind stands
            continue
        points.append(point)
        for name, distribution in trial.distributions.items():
            had.setdefault(name, []).append(distribution)
        if fault := _fault_of_replay(space, point, trial):
            faults.setdefault("again", fault)
    for name, distributions in had.items():
        if fault := _fault_of_change(distributions):
            faults.setdefault(name, f"{name}: {fault}")
    if not had and not faults:
        faults["nothing"] = (
            "suggest asks the trial for nothing; it must ask for at least one hyperparameter, such as "
            "trial.suggest_float('lr', 1e-3, 0.1)"
        )
    if faults:
        raise UserError("\n".join(faults.values()))
    return points, {name: Seen(tuple(each), len(each) / SAMPLES) for name, each in had.items()}


def _fault_of_replay(space: ConditionalSpace, point: Point, asked: optuna.Trial) -> str:
    """Why a point is not a function of its values alone; "" when it is."""
    replay = FixedTrial(dict(point.params))
    first: dict[str, Any] = dict(point.params)
    again: dict[str, Any] = {}
    try:
        again = dict(space.suggest(replay).params)
        if again == first:  # the values; and the ranges that they are from?
            first, again = dict(asked.distributions), dict(replay.distributions)
    except InvalidPoint as refused:
        again = {"error": str(refused)}
    if again == first:
        return ""
    return (
        f"suggest: the same values gave {first}, then {again}; "
        "it may depend on what the trial suggests and on nothing else"
    )


def _fault_of_change(distributions: Sequence[BaseDistribution]) -> str:
    """What of a hyperparameter changes from point to point and must not; "" when nothing does."""
    kinds = list(dict.fromkeys(map(_kind, distributions)))
    if len(kinds) == 1:
        return ""
    if all(name == "categorical" for name, _, _ in kinds):
        first, second = ([*choices] for _, _, choices in kinds[:2])
        return (
            f"its choices change from point to point: {first}, then {second}. Optuna can't model "
            "that: take a range, or a hyperparameter for each list of choices"
        )
    named = dict.fromkeys(name + (", log" if log else "") for name, log, _ in kinds)
    return f"its kind changes from point to point: {', then '.join(named)}. Only a range may change"


def _kind(distribution: BaseDistribution) -> Kind:
    name = type(distribution).__name__.removesuffix("Distribution").lower()
    choices = distribution.choices if isinstance(distribution, CategoricalDistribution) else ()
    return name, bool(getattr(distribution, "log", False)), tuple(choices)


def _in_words(seen: Seen) -> str:
    share = "" if seen.share == 1 else f", in {max(1, round(100 * seen.share))} %"
    if isinstance(first := seen.distributions[0], CategoricalDistribution):
        return f"one of {', '.join(map(str, first.choices))}{share}"
    return f"{range_of(seen.distributions)}{share}"


def _line(error: BaseException) -> str:
    """The last line of the user's file that an exception came through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
