"""`--refine`: what a sweep takes over from earlier ones: new ranges, and trials with comparable scores.

The trials are written into the record when the sweep begins, so a resume does not need the earlier folders.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeps.analysis.compared_trials import FEW, SIDES
from sweeps.analysis.new_ranges import Learnt, in_words, learn, new_value
from sweeps.common.errors import UserError, refuse
from sweeps.common.formatting import count, short_value, shown_path
from sweeps.common.objective import split
from sweeps.common.param_types import hints_of, refusal
from sweeps.common.yaml_values import ParamValue
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.config.sweep_folder import is_foreign
from sweeps.kinds import registry
from sweeps.kinds.trainable import Trainable
from sweeps.plan import foreign_trials, models
from sweeps.plan.fingerprint import score_changes
from sweeps.plan.foreign_trials import ForeignTrials
from sweeps.plan.plan import Lineage, Plan
from sweeps.ray_cluster import placement, session
from sweeps.record import status as record_status
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record
from sweeps.record.trials import ENDED_WELL, Earlier, TrialRow
from sweeps.search.search_method import SearchMethod
from sweeps.space.domain import Domain, Form
from sweeps.space.flat import check
from sweeps.space.numeric_range import Range, range_of_grid
from sweeps.space.optuna_space import optuna_point
from sweeps.space.overrides import applied, text_of, unmarked
from sweeps.space.point import Point

Parent = Record | ForeignTrials
"""A sweep that is refined, or trials from elsewhere."""


def read(config: SweepConfig) -> list[Parent]:
    """The sweeps that are to be refined.

    Raises:
        UserError: one can't be read, has another trainable or objective, or has nothing to learn from.
    """
    parents: list[Parent] = []
    for given in dict.fromkeys(config.parents):
        if is_foreign(given):
            parents.append(foreign_trials.read(given, config))
            continue
        try:
            parents.append(Record.read(Path(given).expanduser().resolve()))
        except (OSError, RecordUnreadable) as error:
            raise UserError(f"--refine {given}: {error}") from None
    parents.sort(key=lambda parent: isinstance(parent, ForeignTrials))  # settings are of a sweep
    own = (parent for parent in parents if isinstance(parent, Record))
    refuse([fault for parent in own for fault in _faults(parent, config)])
    return parents


def _faults(parent: Record, config: SweepConfig) -> Iterator[str]:
    info, what = parent.info, f"--refine {shown_path(parent.folder)}"
    if sorted(info.trainables) != sorted(config.trainables):
        trained, now = ", ".join(info.trainables), ", ".join(config.trainables)
        yield f"{what}: it trained {trained}, this sweep trains {now}"
    has_several = info.objectives.are_several or len(config.metrics) > 1
    if has_several or info.objectives.constraints or config.constraints:
        takes = "takes one objective" if has_several else "takes no constraints"
        yield (
            f"{what}: --refine {takes}: it goes by the scores of earlier trials by one metric. Start a new "
            "sweep, with the --ranges that you have chosen"
        )
        return
    metric, mode = split(config.metrics[0]) if config.metrics else (None, "")
    asked = {"metric": metric, "mode": mode or config.mode}
    for name, wanted in asked.items():
        if wanted and (before := getattr(info.objective, name)) != wanted:
            yield f"{what}: its {name} is {before}, that of this sweep is {wanted}"
    if not any(trial.status in ENDED_WELL for trial in parent.searched):
        ended = f"{count(_ended(parent), 'trial')} ended, and none is finished or pruned"
        yield f"{what}: {ended}: there is nothing to learn from"


def _ended(parent: Parent) -> int:
    return sum(trial.status != "unfinished" for trial in parent.searched)


def narrowed(
    config: SweepConfig,
    parents: Sequence[Parent],
    searcher: type[SearchMethod],
    known: Mapping[str, Trainable],
) -> tuple[SweepConfig, list[str]]:
    """The config with ranges by what the parents showed; its own --ranges stay.

    Args:
        known: trainables that were found before, by name.

    Returns:
        The config; and per hyperparameter a line for the plan with the old range and the new one.

    Raises:
        UserError: a given range does not fit the space.
    """
    lines: list[str] = []
    ranges: dict[str, Any] = {}
    names = config.trainables
    for name, space_name in zip(names, config.search_spaces or names, strict=True):
        prefix = f"{name}." if len(names) > 1 else ""
        trainable = known.get(name) or registry.find(name)
        file = plugins.space_of(space_name, trainable, has_ranges=True)
        if file is not None and file.suggest is not None:
            lines.append(f"{space_name} is a function suggest(trial): its ranges stay as they are")
            continue
        learnt = learn(parents, name, prefix, config.refine_keep)
        if not learnt.best:
            of_model = f"{name}: " if prefix else ""
            lines.append(f"{of_model}unchanged: fewer than {FEW} trials with different scores")
        for hyperparameter, new, line in _new_ranges(
            config, name, trainable, {} if file is None else file.ranges, parents, learnt, searcher.TAKES
        ):
            lines.append(f"{prefix}{hyperparameter}: {line}")
            if new is not None:
                ranges[prefix + hyperparameter] = new
    return dataclasses.replace(config, ranges={**ranges, **config.ranges}), lines


def _new_ranges(
    config: SweepConfig,
    name: str,
    trainable: Trainable,
    space: Mapping[str, Any],
    parents: Sequence[Parent],
    learnt: Learnt,
    takes: frozenset[Form],
) -> Iterator[tuple[str, Any, str]]:
    """Each hyperparameter without a given range or value, its new value of --ranges (None: as in the space),
    and the words for the plan."""
    given, fixed = models.own(config.ranges, name), models.own(config.params, name)
    takes_grid: frozenset[Form] = takes | {"grid_search"}
    hints, domains = hints_of(trainable.params_class), dict[str, Domain]()
    if space:
        domains |= check(space, trainable.params_class, fixed, takes_grid, str(config.searcher), name).domains
    before: dict[str, Any] = {}
    if config.search_space == parents[0].info.settings.search_space:
        of_parent = models.own(parents[0].info.settings.ranges, name)
        before = {key: value for key, value in of_parent.items() if key in hints and key not in given}
        if isinstance(parents[0], ForeignTrials):  # the space is this sweep's own
            before = {key: value for key, value in before.items() if key not in {*domains, *fixed}}
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
        is_prepared, new, words, why = hyperparameter in trainable.prepare_params, None, str(old), ""
        is_grid = old.form == "grid_search"
        if old.is_of_optuna:
            can_be_range = is_grid and "continuous" in takes and not is_prepared
            new, why = new_value(hyperparameter, old.range, old.choices or [], learnt, is_grid=can_be_range)
        if isinstance(new, Range):
            new = _accepted(new, old, hyperparameter, trainable.params_class, fixed)
        if new is not None:
            words = in_words(new, is_grid and "grid_search" in takes)
        if isinstance(new, Range):
            hint = hints[hyperparameter]
            new = text_of(new, unmarked(domains.get(hyperparameter), hint, new.low, new.high))
        change = f"{old}, as it was" if words == str(old) else f"{old} -> {words}"
        yield hyperparameter, own if new is None else new, f"{change} ({why})" if why else change


def _accepted(
    new: Range, domain: Domain, hyperparameter: str, params_class: Any, fixed: Mapping[str, ParamValue]
) -> Range:
    """The range, with the old end in place of one that Params refuses."""
    old = domain.range or range_of_grid(domain.choices or [])
    for side in SIDES:
        if refusal(params_class, {**fixed, hyperparameter: getattr(new, side)}):
            new = dataclasses.replace(new, **{side: getattr(old, side)})
    return new


def lineage(plan: Plan, parents: Sequence[Parent], ranges: Sequence[str]) -> Lineage:
    """What a plan takes over from the sweeps that it refines.

    Args:
        parents: that it refines.
        ranges: lines for the plan about the new ranges.
    """
    trials: list[TrialRow] = []
    retried: list[list[TrialRow]] = []
    lines: list[tuple[str, str]] = []
    named = {(parent.name, parent.info.started) for parent in parents}
    for parent in parents:
        lines += _named(parent, plan)
        refined = [one.name for one in parent.info.parents if (one.name, one.started) not in named]
        if missing := ", ".join(refined):
            text = f"  it refined {missing}, whose trials count only if --refine names {missing} too"
            lines.append(("", text))
        fit, known = _fitting(plan, parent)
        if changed := _changed(plan, parent):
            known = []
        trials += known
        if not known:
            retried.append(fit)
        lines += [("", f"  {line}") for line in _use(changed, fit, known)]
        if isinstance(parent, ForeignTrials) and not fit:
            raise UserError(
                f"--refine {parent.name}: no trial there with a score lies in the ranges: give wider --ranges"
                f"{parent.and_left_out}"
            )
    if anchors := _anchors(retried, trials):
        lines.append(("", f"  run again first, as anchors: {', '.join(row.origin for row in anchors)}"))
    about = [{"name": p.name, "folder": str(p.folder), "started": p.info.started} for p in parents]
    lines += [("" if number else "ranges", text) for number, text in enumerate(ranges)]
    return Lineage(about, Earlier(trials, anchors), lines)


def _named(parent: Parent, plan: Plan) -> Iterator[tuple[str, str]]:
    """What a parent is, for the plan; of trials from elsewhere also what was matched."""
    if isinstance(parent, Record):
        best = record_status.best(parent)
        yield "refines", f"{parent.name}: {count(_ended(parent), 'trial')} ended, best {best}"
        return
    leader = parent.best()
    assert leader is not None
    score, name = leader.best_score(parent.objective), leader.origin or f"trial {leader.number}"
    best = f"{parent.objective.metric} {short_value(score)} ({name})"
    yield "refines", f"{parent.name}: {count(len(parent.trials), 'trial')} from elsewhere, best {best}"
    for note in parent.notes:
        yield "", f"  {note}"
    tried = {name for trial in parent.trials for name in trial.params}
    swept = {name for model in plan.models for name in model.space.describe()}
    if lacking := sorted(swept - tried):
        yield "", f"  it has no {', '.join(lacking)}: the defaults are taken there"


def _use(changed: Sequence[str], fit: Sequence[TrialRow], known: Sequence[TrialRow]) -> list[str]:
    """What the plan says of the trials of a parent: how many count here, or why none does."""
    if known:
        return [f"{count(len(known), 'trial')} in the new ranges: each counts here and is not repeated"]
    if not fit and not changed:
        return ["none of its trials lies in the new ranges"]
    why = changed or ["the fixed hyperparameters differ"]
    return [f"its scores are not comparable: {reason}" for reason in why]


def _anchors(retried: Sequence[Sequence[TrialRow]], known: Sequence[TrialRow]) -> list[TrialRow]:
    """The best 3 trials of sweeps that are not comparable, but those that a comparable one has run again."""
    points: dict[tuple[Any, ...], TrialRow] = {}
    for row in itertools.chain.from_iterable(itertools.zip_longest(*retried)):
        if row is not None:
            points.setdefault(row.point.whole, row)
    there = {row.point.whole for row in known if row.status != "failed"}
    return [row for row in list(points.values())[:3] if row.point.whole not in there]


def _changed(plan: Plan, parent: Parent) -> list[str]:
    """What makes the scores of a parent incomparable, a line each."""
    if isinstance(parent, ForeignTrials):
        return ["with which code and data they were made is not known"]
    changed = score_changes(parent.info.identity, plan)
    # `--precision auto` is fp16 on a GPU and fp32 on a CPU; the PCs of an address are not known yet.
    config, before = plan.config, parent.info.settings.fit.precision
    if {config.fit.precision, before} == {"auto"} and config.address is None:
        now = "fp16" if placement.gpus_per_trial(config, [session.this_pc()]) else "fp32"
        places = [trial.place for trial in parent.searched if "gpu" in trial.place]
        others = {"fp16" if place["gpu"] else "fp32" for place in places} - {now}
        changed += [f"--precision auto: {other} there, {now} here" for other in sorted(others)]
    return changed


def _fitting(plan: Plan, parent: Parent) -> tuple[list[TrialRow], list[TrialRow]]:
    """Trials of a parent that are points of the new space, the best first: those with a score, with the fixed
    values of the new sweep; and those whose scores are the same here, with the values that they had."""
    fit, known = [], []
    for model in plan.models:
        trials = [trial for trial in parent.searched if trial.trainable == model.name]
        order = {number: place for place, number in enumerate(parent.leaders(len(parent.searched)))}
        for trial in sorted(trials, key=lambda trial: order.get(trial.number, len(order))):
            if (point := _point(plan, trial)) is None:
                continue
            row = dataclasses.replace(
                trial,
                params=dict(point.params),
                fixed=dict(point.fixed),
                # One that was interrupted counts with the epochs that it trained.
                status="failed" if trial.status == "unfinished" else trial.status,
                origin=f"{trial.origin or f'trial {trial.number}'} of {parent.name}",
            )
            if trial.number in order:
                fit.append(row)
            had = {**trial.fixed, **trial.params}
            if all(had.get(name, value) == value for name, value in point.fixed.items()):
                rest = {name: value for name, value in had.items() if name not in point.params}
                known.append(dataclasses.replace(row, fixed=rest))
    return fit, known


def _point(plan: Plan, trial: TrialRow) -> Point | None:
    """A trial as a point of the new space; None where it is none."""
    with contextlib.suppress(LookupError, ValueError):
        point = plan.space.with_values_of(trial.point)
        optuna_point(plan.space, point)
        return point
    return None
