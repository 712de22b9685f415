"""`--refine`: the ranges of a space, narrower or wider by what earlier sweeps showed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from sweeps.analysis.failure_regions import DeadRegion, dead_regions
from sweeps.analysis.influence import influence
from sweeps.analysis.range_edges import Edge, edges
from sweeps.analysis.top_trials import FEW, SIDES, Ranked, distributions_of, ranked
from sweeps.common.formatting import short
from sweeps.common.param_types import hints_of, refusal
from sweeps.common.yaml_values import ParamValue
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan import models
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.space.domain import Domain, Form, of_choices
from sweeps.space.flat import check
from sweeps.space.numeric_range import Range, Side, range_of_grid
from sweeps.space.overrides import applied, text_of, unmarked

NARROWER = 0.9
"""A new range wider than this share of the old one, on its scale, is not taken."""
NEVER_GOOD = 4
"""Trials of a choice, none of them good, before it is dropped."""


def narrowed(
    config: SweepConfig, parents: Sequence[Record], searcher: ModuleType
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
        trainable = plugins.find("trainable", name)
        file = plugins.space_of(space_name, trainable, has_ranges=True)
        if hasattr(file, "suggest"):
            lines.append(f"{space_name} is a function suggest(trial): its ranges stay as they are")
            continue
        learnt = _learn(parents, name, prefix, config.refine_keep)
        ignored |= {prefix + hyperparameter for hyperparameter in learnt.importances}
        if not learnt.best:
            of_model = f"{name}: " if prefix else ""
            lines.append(f"{of_model}unchanged: fewer than {FEW} trials with different scores")
        for hyperparameter, new, line in _new_ranges(
            config, name, getattr(file, "SPACE", {}), parents, learnt, searcher.TAKES
        ):
            lines.append(f"{prefix}{hyperparameter}: {line}")
            if new is not None:
                ranges[prefix + hyperparameter] = new
    return dataclasses.replace(config, ranges={**ranges, **config.ranges}), lines, frozenset(ignored)


@dataclass(frozen=True)
class _Learnt:
    """What all parents together show of one trainable."""

    seen: Sequence[Ranked]
    best: Sequence[TrialRow]
    """Of each parent with enough trials to judge a range by, the best first."""
    edges: Mapping[tuple[str, Side], Edge]
    """By hyperparameter and side."""
    dead: Sequence[tuple[str, DeadRegion]]
    """With their hyperparameters."""
    importances: Mapping[str, float]
    """Of the hyperparameters without influence."""

    def dead_of(self, hyperparameter: str) -> list[DeadRegion]:
        return [region for name, region in self.dead if name == hyperparameter]


def _learn(parents: Sequence[Record], name: str, prefix: str, keep: float) -> _Learnt:
    """What the parents show of a trainable, whose hyperparameters have a prefix in Optuna's names."""
    seen = [ranked(parent, name, keep) for parent in parents]
    trials = [trial for part in seen for trial in part.trials]
    distributions = distributions_of(trials)
    good = [trial for part in seen for trial in part.good]
    best = [trial for part in seen if part.can_judge_ranges for trial in part.best]
    at_edges = edges(best, trials, distributions) if best else []
    found = [each for parent in parents if (each := influence(parent, name)) is not None]
    without = set.intersection(*(set(each.without) for each in found)) if found else set()
    return _Learnt(
        seen,
        best,
        {(edge.hyperparameter.removeprefix(prefix), edge.side): edge for edge in at_edges},
        [
            (each.hyperparameter.removeprefix(prefix), each)
            for each in dead_regions(trials, good, distributions)
        ],
        {each.removeprefix(prefix): max(one.at.importances[each] for one in found) for each in without},
    )


def _new_ranges(
    config: SweepConfig,
    name: str,
    space: Mapping[str, Any],
    parents: Sequence[Record],
    learnt: _Learnt,
    takes: frozenset[Form],
) -> Iterator[tuple[str, Any, str]]:
    """Each hyperparameter without a given range or value, its new value of --ranges (None: as in the space),
    and the words for the plan."""
    given, fixed = models.own(config.ranges, name), models.own(config.params, name)
    trainable = plugins.find("trainable", name)
    takes_grid: frozenset[Form] = takes | {"grid_search"}
    hints, domains = hints_of(trainable.Params), dict[str, Domain]()
    if space:
        domains |= check(space, trainable.Params, fixed, takes_grid, str(config.searcher), name).domains
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
            yield hyperparameter, [None] if own is None else own, f"stays {short(own)}"
            continue
        # Data is prepared for each value of some hyperparameters: these get no continuous range.
        is_prepared = hyperparameter in getattr(trainable, "PREPARE_PARAMS", ())
        new, why = _new(hyperparameter, old, learnt, takes - {"continuous"} if is_prepared else takes)
        if isinstance(new, Range):
            new = _accepted(new, old, hyperparameter, trainable.Params, fixed)
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
    return f"fixed at {short(fixed[name])}" if name in fixed else str(found[name])


def _change(old: Domain, words: str, why: str) -> str:
    """The old range and the new one, with the reason."""
    change = f"{old}, as it was" if words == str(old) else f"{old} -> {words}"
    return f"{change} ({why})" if why else change


def _new(hyperparameter: str, domain: Domain, learnt: _Learnt, takes: frozenset[Form]) -> tuple[Any, str]:
    """The new value of --ranges or a Range, and why; None where nothing is known that would change it."""
    if domain.distribution is None:
        return None, ""
    values = [trial.params[hyperparameter] for trial in learnt.best if hyperparameter in trial.params]
    matters = learnt.dead_of(hyperparameter) or any((hyperparameter, side) in learnt.edges for side in SIDES)
    importance = learnt.importances.get(hyperparameter)
    if importance is not None and values and not matters:
        best = values[0] if isinstance(values[0], int | float) else [values[0]]  # as text, it is split
        return best, f"its importance was {100 * importance:.1f} %; a small effect can't be ruled out"
    if (old := domain.range) is not None:
        return _new_range(old, values, hyperparameter, learnt)
    choices = domain.choices or []
    grid = range_of_grid(choices) if domain.form == "grid_search" and "continuous" in takes else None
    if grid is not None:
        return _beside(grid, sorted(choices), values, hyperparameter, learnt)
    return _fewer(choices, values, hyperparameter, learnt)


def _new_range(
    old: Range, values: Sequence[Any], hyperparameter: str, learnt: _Learnt
) -> tuple[Range | None, str]:
    inside = [float(value) for value in values if old.low <= value <= old.high]
    new, whys = old, []
    if len(inside) > 1 and old.high > old.low:
        around = old.around(inside)
        if old.share(around.high) - old.share(around.low) < NARROWER:
            new = around
            whys.append(f"around the {len(inside)} best")
    for region in learnt.dead_of(hyperparameter):
        cut = old.cut(new, region.side, float(region.limit)) if region.side else new
        if cut != new and all(cut.low <= value <= cut.high for value in inside):
            new = cut
            why = region.cause or "failed, diverged or were infeasible"
            whys.append(f"without the end where {region.bad} of {region.all_bad} trials that {why} lie")
    for side in SIDES:
        edge = learnt.edges.get((hyperparameter, side))
        if edge is not None and edge.old is not None:
            wider = old.wider(side) if getattr(edge.old, side) == getattr(old, side) else old
            new = dataclasses.replace(new, **{side: getattr(wider, side)})
            end = "upper" if side == "high" else "lower"
            whys.append(f"{edge.at} of the {edge.of} best lie at its {end} end")
    return (None, "") if new == old else (new, ", ".join(whys))


def _beside(
    grid: Range, choices: Sequence[float], values: Sequence[Any], hyperparameter: str, learnt: _Learnt
) -> tuple[Range, str]:
    """From the neighbour below the best points of a grid to the neighbour above them; beyond an end of the
    grid, where the best one lies there, by its last gap."""
    inside = [choices.index(value) for value in values if value in choices]
    if not inside:
        return grid, "a range in place of its points"
    last, gap = len(choices) - 1, 1 / (len(choices) - 1)
    low, high = choices[max(0, min(inside) - 1)], choices[min(last, max(inside) + 1)]
    if (hyperparameter, "high") in learnt.edges or inside[0] == last:
        high = grid.beyond(1 + gap)
    if (hyperparameter, "low") in learnt.edges or inside[0] == 0:
        low = grid.beyond(-gap)
    return dataclasses.replace(grid, low=low, high=high), f"around the {len(inside)} best of its points"


def _fewer(
    choices: Sequence[Any], values: Sequence[Any], hyperparameter: str, learnt: _Learnt
) -> tuple[list[Any], str]:
    """Choices without those that were never good; choices of a grid too, where no grid is searched."""
    dead = {region.limit for region in learnt.dead_of(hyperparameter) if region.side is None}
    tried = [t.params.get(hyperparameter) for part in learnt.seen for t in part.trials]
    good = {t.params.get(hyperparameter) for part in learnt.seen for t in part.good}
    never = {
        choice for choice in choices if values and choice not in good and tried.count(choice) >= NEVER_GOOD
    }
    kept = [choice for choice in choices if choice not in dead | never] or list(choices)
    dropped = [short(choice) for choice in choices if choice not in kept]
    whys = [f"never good: {', '.join(dropped)}"] if dropped else []
    for side, end, outermost in zip(SIDES, ("larg", "small"), (max, min), strict=True):
        # The choices may be those of another space than the trials had, with more beyond the end.
        if (hyperparameter, side) in learnt.edges and outermost(choices) in values:
            whys.append(f"the best have its {end}est: try a {end}er one")
    return kept, ", ".join(whys)


def _accepted(
    new: Range, domain: Domain, hyperparameter: str, params_class: Any, fixed: Mapping[str, ParamValue]
) -> Range:
    """The range, with the old end in place of one that Params refuses."""
    old = domain.range or range_of_grid(domain.choices or [])
    for side in SIDES:
        if refusal(params_class, {**fixed, hyperparameter: getattr(new, side)}):
            new = dataclasses.replace(new, **{side: getattr(old, side)})
    return new
