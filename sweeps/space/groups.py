"""A space of ranges of which some belong to some options of a group, such as the models of a project."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.trial import FixedTrial

from sweeps.common.param_types import hints_of
from sweeps.space import conditional, overrides
from sweeps.space.domain import Domain, Form
from sweeps.space.point import Point

MOST_LISTED = 100_000
"""Combinations of values of ranges, of which the points are counted."""


@dataclass(frozen=True)
class GroupSpace(conditional.ConditionalSpace):
    """Ranges of which some belong to some values of others: to an option of a config group."""

    domains: Mapping[str, Domain] = dataclasses.field(default_factory=dict)
    conditions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Hyperparameter to the values that it belongs to, in words."""

    has_code = False

    def grid(self) -> Iterator[Point]:
        """Every point of a finite space."""
        found = dict[tuple[Any, ...], Point]()
        for values in itertools.product(*[each.values() or [] for each in self.domains.values()]):
            point = self.suggest(FixedTrial(dict(zip(self.domains, values, strict=True))))
            found.setdefault(point.key, point)
        return iter(found.values())

    def size(self) -> float:
        sizes = [domain.size() for domain in self.domains.values()]
        return len(list(self.grid())) if math.prod(sizes) <= MOST_LISTED else math.inf

    def describe(self) -> dict[str, str]:
        return {
            name: ", ".join(filter(None, [str(domain), self.conditions.get(name)]))
            for name, domain in self.domains.items()
        }

    def exactly(self) -> dict[str, str]:
        """Hyperparameter to its domain; the settings say what belongs to what."""
        return {name: domain.exactly for name, domain in self.domains.items()}


def check(
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
        ranges: as they are given.
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
    return GroupSpace(**own, domains=domains, conditions=conditions)


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
