"""Spaces made of others: those of several models, and ranges of which some belong to some options of a group,
such as the models of a project."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.trial import FixedTrial

from sweeps.common.param_types import hints_of
from sweeps.common.yaml_values import ParamValue
from sweeps.space import conditional, flat, overrides
from sweeps.space.domain import Domain, Form
from sweeps.space.numeric_range import Range
from sweeps.space.point import Point, Space, Suggests, TrialProxy, suggested

OneSpace = flat.FlatSpace | conditional.ConditionalSpace
"""The space of one model."""


@dataclass(frozen=True)
class SeveralSpaces(Space):
    """The spaces of several models: first which model, then its point.

    Hyperparameters of the same name mean different things in different models, so Optuna has each as
    `MODEL.HYPERPARAMETER`.
    """

    spaces: Mapping[str, OneSpace]

    is_conditional = True

    @property
    def dimensions(self) -> int:
        return 1 + max(each.dimensions for each in self.spaces.values())

    def draw(self, seeds: tuple[int, ...]) -> Point:
        """A point of one of the models, all equally likely."""
        # A stream of its own: the choice of the model is independent of the values from the same seeds.
        generator = np.random.default_rng(np.random.SeedSequence(seeds, spawn_key=(1,)))
        return list(self.spaces.values())[generator.integers(len(self.spaces))].draw(seeds)

    def grid(self) -> Iterator[Point]:
        return itertools.chain.from_iterable(each.grid() for each in self.spaces.values())

    def size(self) -> float:
        return sum(each.size() for each in self.spaces.values())

    def suggest(self, trial: Suggests) -> Point:
        name = trial.suggest_categorical("trainable", list(self.spaces))
        return self.spaces[name].suggest(_Prefixed(trial, f"{name}."))

    def completed(self, point: Point, seeds: tuple[int, ...]) -> Point:
        return self.spaces[point.trainable].completed(point, seeds)

    def with_values_of(self, point: Point) -> Point:
        return self.spaces[point.trainable].with_values_of(point)

    def names(self, point: Point) -> dict[str, ParamValue]:
        of_model = self.spaces[point.trainable].names(point)
        prefixed = {f"{point.trainable}.{name}": value for name, value in of_model.items()}
        return {"trainable": point.trainable, **prefixed}


class _Prefixed(TrialProxy):
    """A trial whose hyperparameter names all get a prefix."""

    def __init__(self, trial: Suggests, prefix: str) -> None:
        self._trial = trial
        self._prefix = prefix

    def _number(self, name: str, asked: Range) -> float:
        return suggested(self._trial, self._prefix + name, asked)

    def _choice(self, name: str, choices: Sequence[Any]) -> Any:
        return self._trial.suggest_categorical(self._prefix + name, choices)


@dataclass(frozen=True)
class GroupSpace(conditional.ConditionalSpace):
    """Ranges of which some belong to some values of others: to an option of a config group."""

    domains: Mapping[str, Domain] = dataclasses.field(default_factory=dict)
    conditions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Hyperparameter to the values that it belongs to, in words."""
    parts: Sequence[tuple[Mapping[str, str], Sequence[str]]] = ()
    """Each combination of options, and the other hyperparameters that have a range there."""

    has_code = False

    def grid(self) -> Iterator[Point]:
        """Every point of a finite space."""
        for chosen, names in self.parts:
            for values in itertools.product(*[self.domains[name].values() or [] for name in names]):
                yield self.suggest(FixedTrial({**chosen, **dict(zip(names, values, strict=True))}))

    def size(self) -> float:
        return sum(math.prod(self.domains[name].size() for name in names) for _, names in self.parts)

    def describe(self) -> dict[str, str]:
        return {
            name: ", ".join(filter(None, [str(domain), self.conditions.get(name)]))
            for name, domain in self.domains.items()
        }

    def exactly(self) -> dict[str, str]:
        """Hyperparameter to its domain; the settings say what belongs to what."""
        return {name: domain.exactly for name, domain in self.domains.items()}


def check_groups(
    ranges: Mapping[str, Any],
    groups: Mapping[str, Sequence[str]],
    has: Callable[[Mapping[str, Any]], Collection[str]],
    params_class: Any,
    fixed: Mapping[str, Any],
    takes: frozenset[Form],
    searcher: str,
    trainable: str = "",
) -> GroupSpace | None:
    """Ranges of a trainable whose hyperparameters follow from the options of groups; None where all of them
    belong to all options, so that the space is flat.

    Args:
        groups: hyperparameter to options.
        has: the hyperparameters that there are with an option for each group.
        params_class: as of `conditional.check`, like the others.

    Raises:
        UserError: all faults at once, one a line.
    """
    domains, in_ranges = overrides.applied({}, ranges, takes | {"grid_search"}, hints_of(params_class))
    options = {
        name: list(domains[name].choices or [])
        if name in domains
        else [in_ranges.get(name, fixed.get(name, each[0]))]
        for name, each in groups.items()
    }
    combinations = [dict(zip(options, each, strict=True)) for each in itertools.product(*options.values())]
    of_each = [(chosen, has(chosen)) for chosen in combinations]
    conditions = {
        name: words
        for name in domains
        if (words := condition(options, [chosen for chosen, known in of_each if name in known]))
    }
    if not conditions:
        return None
    is_grid = "grid_search" in takes and all(each.size() < math.inf for each in domains.values())

    def define(trial: Any) -> None:
        chosen = {n: domains[n].suggest(trial, n) if n in domains else each[0] for n, each in options.items()}
        known = has(chosen)
        for name, domain in domains.items():
            if name not in chosen and name in known:
                domain.suggest(trial, name)

    may: frozenset[Form] = takes | {"conditional"} if is_grid else takes
    conditional.refuse_searcher(f"--ranges {' '.join(conditions)}", may, searcher)
    found = conditional.check(define, params_class, {**in_ranges, **fixed}, may, searcher, trainable)
    own = {each.name: getattr(found, each.name) for each in dataclasses.fields(found)}
    parts = [(chosen, [n for n in domains if n in known and n not in chosen]) for chosen, known in of_each]
    return GroupSpace(**own, domains=domains, conditions=conditions, parts=parts)


def condition(options: Mapping[str, Sequence[str]], having: Sequence[Mapping[str, str]]) -> str:
    """The options with which there is a hyperparameter, in words; "" where these are all."""
    if len(having) == math.prod(map(len, options.values())):
        return ""
    of_group = {
        name: [each for each in known if any(h[name] == each for h in having)]
        for name, known in options.items()
    }
    words = [
        f"{name}={' or '.join(of_group[name])}"
        for name in options
        if len(of_group[name]) < len(options[name])
    ]
    return f"with {' and '.join(words)}" if words else "with some of the options"
