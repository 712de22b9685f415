"""`--refine`: the ranges of a space, narrower or wider by what earlier sweeps showed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweeps.analysis.compared_trials import FEW, SIDES
from sweeps.analysis.new_ranges import Learnt, learn, new_value
from sweeps.common.formatting import short_value
from sweeps.common.param_types import hints_of, refusal
from sweeps.common.yaml_values import ParamValue
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.kinds import registry
from sweeps.plan import models
from sweeps.record.record import Record
from sweeps.search.search_method import SearchMethod
from sweeps.space.domain import Domain, Form, of_choices
from sweeps.space.flat import check
from sweeps.space.numeric_range import Range, range_of_grid
from sweeps.space.overrides import applied, text_of, unmarked


def narrowed(
    config: SweepConfig, parents: Sequence[Record], searcher: type[SearchMethod]
) -> tuple[SweepConfig, list[str], frozenset[str]]:
    """The config with ranges by what the parents showed; its own --ranges stay.

    Returns:
        The config; per hyperparameter a line for the plan with the old range and the new one; and the
        hyperparameters, by Optuna's names, without influence: a trial scores the same with any value.

    Raises:
        UserError: a given range does not fit the space.
    """
    lines: list[str] = []
    ranges: dict[str, Any] = {}
    ignored: set[str] = set()
    names = config.trainables
    for name, space_name in zip(names, config.search_spaces or names, strict=True):
        prefix = f"{name}." if len(names) > 1 else ""
        trainable = registry.find(name)
        file = plugins.space_of(space_name, trainable, has_ranges=True)
        if file is not None and file.suggest is not None:
            lines.append(f"{space_name} is a function suggest(trial): its ranges stay as they are")
            continue
        learnt = learn(parents, name, prefix, config.refine_keep)
        ignored |= learnt.importances.keys()
        if not learnt.best:
            of_model = f"{name}: " if prefix else ""
            lines.append(f"{of_model}unchanged: fewer than {FEW} trials with different scores")
        for hyperparameter, new, line in _new_ranges(
            config, name, {} if file is None else file.ranges, parents, learnt, searcher.TAKES
        ):
            lines.append(f"{prefix}{hyperparameter}: {line}")
            if new is not None:
                ranges[prefix + hyperparameter] = new
    return dataclasses.replace(config, ranges={**ranges, **config.ranges}), lines, frozenset(ignored)


def _new_ranges(
    config: SweepConfig,
    name: str,
    space: Mapping[str, Any],
    parents: Sequence[Record],
    learnt: Learnt,
    takes: frozenset[Form],
) -> Iterator[tuple[str, Any, str]]:
    """Each hyperparameter without a given range or value, its new value of --ranges (None: as in the space),
    and the words for the plan."""
    given, fixed = models.own(config.ranges, name), models.own(config.params, name)
    trainable = registry.find(name)
    takes_grid: frozenset[Form] = takes | {"grid_search"}
    hints, domains = hints_of(trainable.params_class), dict[str, Domain]()
    if space:
        domains |= check(space, trainable.params_class, fixed, takes_grid, str(config.searcher), name).domains
    before: dict[str, Any] = {}
    if config.search_space == parents[0].info.settings.search_space:
        of_parent = models.own(parents[0].info.settings.ranges, name)
        before = {key: value for key, value in of_parent.items() if key in hints and key not in given}
    if not (domains or before):
        return  # all are given
    base, _ = applied(domains, before, takes_grid, hints)
    for hyperparameter in {**domains, **base}:
        if hyperparameter in given or hyperparameter in fixed:
            continue
        own = before.get(hyperparameter)
        if (old := base.get(hyperparameter)) is None:  # fixed in the parent
            yield hyperparameter, [None] if own is None else own, f"stays {short_value(own)}"
            continue
        # Data is prepared for each value of some hyperparameters: these get no continuous range.
        is_prepared = hyperparameter in trainable.prepare_params
        new: Any = None
        why = ""
        if old.is_of_optuna:
            is_grid = old.form == "grid_search" and "continuous" in takes and not is_prepared
            new, why = new_value(hyperparameter, old.range, old.choices or [], learnt, is_grid=is_grid)
        if isinstance(new, Range):
            new = _accepted(new, old, hyperparameter, trainable.params_class, fixed)
            hint = hints[hyperparameter]
            new = text_of(new, unmarked(domains.get(hyperparameter), hint, new.low, new.high))
        new = own if new is None else new
        words = str(old) if new is None else _in_words(domains, hyperparameter, hints, new, takes)
        yield hyperparameter, new, _change(old, words, why)


def _in_words(
    domains: Mapping[str, Domain], name: str, hints: Mapping[str, Any], new: Any, takes: frozenset[Form]
) -> str:
    """A new value of --ranges."""
    # A space must keep at least one hyperparameter; this one is no field of Params.
    other = of_choices([0, 1])
    found, fixed = applied({**domains, "": other}, {name: new}, takes, hints)
    return f"fixed at {short_value(fixed[name])}" if name in fixed else str(found[name])


def _change(old: Domain, words: str, why: str) -> str:
    """The old range and the new one, with the reason."""
    change = f"{old}, as it was" if words == str(old) else f"{old} -> {words}"
    return f"{change} ({why})" if why else change


def _accepted(
    new: Range, domain: Domain, hyperparameter: str, params_class: Any, fixed: Mapping[str, ParamValue]
) -> Range:
    """The range, with the old end in place of one that Params refuses."""
    old = domain.range or range_of_grid(domain.choices or [])
    for side in SIDES:
        if refusal(params_class, {**fixed, hyperparameter: getattr(new, side)}):
            new = dataclasses.replace(new, **{side: getattr(old, side)})
    return new
