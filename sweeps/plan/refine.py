"""`--refine`: the ranges of a space, narrower or wider by what earlier sweeps showed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from sweeps.analysis.failure_regions import DeadRegion, dead_regions
from sweeps.analysis.fidelity import influence
from sweeps.analysis.top_trials import FEW, SIDES, Edge, Ranked, edges, ranked, words_of
from sweeps.common.formatting import short
from sweeps.common.param_types import cast, hints_of
from sweeps.common.yaml_values import ParamValue
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan import models
from sweeps.plan.parents import Parent
from sweeps.space.domain import Domain, Form
from sweeps.space.flat import check
from sweeps.space.numeric_range import Range, Side, range_of_grid
from sweeps.space.overrides import applied, text_of

NARROWER = 0.9
"""Of a range, on its scale: a new one that is not narrower than this is left as it was."""
NEVER_GOOD = 4
"""Trials that a choice must have had, and none of them good, before it is dropped."""


@dataclass(frozen=True)
class Narrowed:
    """A config with new ranges, and what is said of them."""

    config: SweepConfig
    lines: Sequence[str]
    """Per hyperparameter the old range and the new one, for the plan."""
    ignored: frozenset[str]
    """Hyperparameters, by Optuna's names, that showed no influence: with any value, a trial scores the
    same."""


def narrowed(config: SweepConfig, parents: Sequence[Parent], searcher: ModuleType) -> Narrowed:
    """The config with ranges by what the parents showed; a range that it has already stands.

    Raises:
        UserError: a range that is given does not fit the space.
    """
    lines: list[str] = []
    ranges: dict[str, Any] = {}
    ignored: set[str] = set()
    names = config.trainables
    for name, space_name in zip(names, config.search_spaces or names, strict=True):
        prefix = f"{name}." if len(names) > 1 else ""
        file = plugins.find("search_space", space_name)
        if hasattr(file, "suggest"):
            lines.append(f"{space_name} is a function suggest(trial): its ranges stay as they are")
            continue
        learnt = _learn(parents, name, prefix, config.refine_keep)
        ignored |= learnt.without_influence.keys()
        if not learnt.best:
            whose = f"those of {name} " if prefix else ""
            lines.append(f"{whose}left as they were: fewer than {FEW} trials with scores that differ")
        for step in _steps(config, name, file.SPACE, parents, learnt, searcher.TAKES):
            lines.append(f"{prefix}{step.line}")
            if step.new is not None:
                ranges[prefix + step.hyperparameter] = step.new
    config = dataclasses.replace(config, ranges={**ranges, **config.ranges})
    return Narrowed(config, lines, frozenset(ignored))


@dataclass(frozen=True)
class _Step:
    hyperparameter: str
    new: Any
    """As --ranges takes it; None where the space's own stands."""
    line: str


@dataclass(frozen=True)
class _Learnt:
    """What all parents together show of one trainable; hyperparameters by Optuna's names."""

    seen: Sequence[Ranked]
    prefix: str
    edges: Mapping[tuple[str, Side], Edge]
    dead: Sequence[DeadRegion]
    without_influence: Mapping[str, float]

    @property
    def best(self) -> list[Any]:
        """Of each parent that has enough trials to judge a range by, the best first."""
        return [trial for part in self.seen if _can_judge(part) for trial in part.best]

    def dead_of(self, hyperparameter: str) -> list[DeadRegion]:
        return [region for region in self.dead if region.hyperparameter == self.prefix + hyperparameter]


def _can_judge(part: Ranked) -> bool:
    return len(part.order) >= FEW and len(set(part.values)) > 1


def _learn(parents: Sequence[Parent], name: str, prefix: str, keep: float) -> _Learnt:
    seen = [ranked(parent.record, name, keep) for parent in parents]
    trials = [trial for part in seen for trial in part.trials]
    words = words_of(trials)
    good = [trial for part in seen for trial in part.good]
    best = [trial for part in seen if _can_judge(part) for trial in part.best]
    found = [each for parent in parents if (each := influence(parent.record, name)) is not None]
    nowhere = {
        hyperparameter
        for each in found
        for hyperparameter in each.without
        if all(hyperparameter in one.without for one in found)
    }
    return _Learnt(
        seen,
        prefix,
        {(edge.hyperparameter, edge.side): edge for edge in (edges(best, trials, words) if best else [])},
        dead_regions(trials, good, words),
        {
            hyperparameter: max(each.at.importances[hyperparameter] for each in found)
            for hyperparameter in nowhere
        },
    )


def _steps(
    config: SweepConfig,
    name: str,
    space: Mapping[str, Any],
    parents: Sequence[Parent],
    learnt: _Learnt,
    takes: frozenset[Form],
) -> Iterator[_Step]:
    """What becomes of each hyperparameter of a space, but for those whose range or value is given."""
    given, fixed = models.own(config.ranges, name), models.own(config.params, name)
    trainable = plugins.find("trainable", name)
    domains = check(space, trainable.Params, fixed, takes | {"grid_search"}, config.searcher, name).domains
    is_same = config.search_space == parents[0].settings.get("search_space")
    of_parent = models.own(parents[0].settings.get("ranges", {}), name) if is_same else {}
    before = {
        hyperparameter: of_parent[hyperparameter]
        for hyperparameter in of_parent
        if hyperparameter in space and hyperparameter not in given
    }
    base, _ = applied(domains, before, takes | {"grid_search"})
    for hyperparameter in domains:
        if hyperparameter in given or hyperparameter in fixed:
            continue
        if hyperparameter not in base:  # the parent held it still
            yield _Step(
                hyperparameter,
                before[hyperparameter],
                f"{hyperparameter}: stays {short(before[hyperparameter])}",
            )
            continue
        # Data is prepared for each value of some hyperparameters: these keep theirs.
        can_be_ranges = (
            takes - {"continuous"} if hyperparameter in getattr(trainable, "PREPARE_PARAMS", ()) else takes
        )
        new, why = _new(hyperparameter, base[hyperparameter], learnt, can_be_ranges)
        if isinstance(new, Range):
            new = text_of(_accepted(new, base[hyperparameter], hyperparameter, trainable.Params, fixed))
        new = before.get(hyperparameter) if new is None else new
        old = str(base[hyperparameter])
        if new is None:
            yield _Step(hyperparameter, None, f"{hyperparameter}: {old}, as it was")
            continue
        own = domains[hyperparameter]
        refined, fixed_values = applied({hyperparameter: own, "": own}, {hyperparameter: new}, takes)
        words = str(refined.get(hyperparameter, ""))
        if hyperparameter in fixed_values:
            words = f"fixed at {short(fixed_values[hyperparameter])}"
        arrow = f"{old}, as it was" if words == old else f"{old} -> {words}"
        yield _Step(hyperparameter, new, f"{hyperparameter}: {arrow}{f' ({why})' if why else ''}")


def _new(hyperparameter: str, domain: Domain, learnt: _Learnt, takes: frozenset[Form]) -> tuple[Any, str]:
    """What a hyperparameter has in place of its domain, as --ranges takes it or as a Range, and why; None
    where nothing is known that would change it."""
    told, best = learnt.prefix + hyperparameter, learnt.best
    values = [trial.params[hyperparameter] for trial in best if hyperparameter in trial.params]
    matters = bool(learnt.dead_of(hyperparameter)) or any((told, side) in learnt.edges for side in SIDES)
    if domain.distribution is None:
        return None, ""
    if told in learnt.without_influence and values and not matters:
        return values[
            0
        ], f"it decided {100 * learnt.without_influence[told]:.1f} %; a small effect can't be ruled out"
    old = domain.range
    if old is not None:
        return _new_range(old, values, hyperparameter, learnt)
    choices = domain.choices or []
    if (
        (grid := range_of_grid(choices)) is not None
        and domain.form == "grid_search"
        and "continuous" in takes
    ):
        return _beside(grid, sorted(choices), values, told, learnt)
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
            why = region.cause or "failed or diverged"
            whys.append(f"{region.bad} of {region.all_bad} that {why} lie behind it")
    for side in SIDES:
        edge = learnt.edges.get((learnt.prefix + hyperparameter, side))
        if edge is not None and edge.old is not None:
            wider = old.wider(side) if getattr(edge.old, side) == getattr(old, side) else old
            new = dataclasses.replace(new, **{side: getattr(wider, side)})
            end = "upper" if side == "high" else "lower"
            whys.append(f"{edge.at} of the {edge.of} best lie at its {end} end")
    return (None, "") if new == old else (new, ", ".join(whys))


def _beside(
    grid: Range, choices: Sequence[float], values: Sequence[Any], told: str, learnt: _Learnt
) -> tuple[Range, str]:
    """From the neighbour below the best points of a grid to the one above them; behind its end, where the
    best one lies there, by as much as its last gap."""
    inside = [choices.index(value) for value in values if value in choices]
    if not inside:
        return grid, "a range in place of its points"
    first, last = min(inside), max(inside)
    low, high = choices[max(0, first - 1)], choices[min(len(choices) - 1, last + 1)]
    gap = 1 / (len(choices) - 1)
    if (told, "high") in learnt.edges or inside[0] == len(choices) - 1:
        high = grid.beyond(1 + gap)
    if (told, "low") in learnt.edges or inside[0] == 0:
        low = grid.beyond(-gap)
    return dataclasses.replace(grid, low=low, high=high), f"beside the {len(inside)} best of its points"


def _fewer(
    choices: Sequence[Any], values: Sequence[Any], hyperparameter: str, learnt: _Learnt
) -> tuple[list[Any], str]:
    """Choices without those that never were good. Those of a grid become choices, if no grid is searched."""
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
        # Where they are choices of another space, there may be one behind the end of those that were tried.
        if (learnt.prefix + hyperparameter, side) in learnt.edges and outermost(choices) in values:
            whys.append(f"the best have its {end}est: try a {end}er one")
    return kept, ", ".join(whys)


def _accepted(
    new: Range, domain: Domain, hyperparameter: str, params_class: Any, fixed: Mapping[str, ParamValue]
) -> Range:
    """The range, but an end that Params refuses stays where it was."""
    old = domain.range or range_of_grid(domain.choices or [])
    hint = hints_of(params_class).get(hyperparameter)
    for side in SIDES:
        end = getattr(new, side)
        try:
            params_class(**{**fixed, hyperparameter: cast(end, hint)})
        except (ValueError, TypeError):
            new = dataclasses.replace(new, **{side: getattr(old, side)})
    return new
