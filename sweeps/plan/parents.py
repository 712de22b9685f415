"""The trials of earlier sweeps that a refined sweep knows, as far as their scores are comparable.

It is written into the record when the sweep begins, so that a resume needs the earlier folders no more.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps.analysis.top_trials import Ranked, ranked
from sweeps.cluster import placement, session
from sweeps.common.errors import UserError
from sweeps.common.formatting import count, place
from sweeps.common.param_types import cast, hints_of
from sweeps.common.yaml_values import ParamValue
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan.fingerprint import score_changes
from sweeps.plan.models import Model
from sweeps.plan.plan import Lineage
from sweeps.record import status as record_status
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record
from sweeps.record.trials import Earlier, TrialRow
from sweeps.space.conditional import ConditionalSpace
from sweeps.space.optuna_point import optuna_point
from sweeps.space.point import Point

if TYPE_CHECKING:
    from sweeps.plan.plan import Plan

ANCHORS = 3
"""Trials that run again, of sweeps whose scores are not comparable."""


@dataclass(frozen=True)
class Parent:
    """A sweep that is refined."""

    folder: Path
    record: Record

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def settings(self) -> Mapping[str, Any]:
        """Its settings, those that results depend on; {} of an old record."""
        return self.record.info.settings


def look(config: SweepConfig) -> list[Parent]:
    """The sweeps that are to be refined.

    Raises:
        UserError: one can't be read, trained or judged something else, or has nothing to learn from.
    """
    parents: list[Parent] = []
    for given in dict.fromkeys(config.parents):
        folder = Path(given).expanduser().resolve()
        try:
            parents.append(Parent(folder, Record.read(folder)))
        except (OSError, RecordUnreadable) as error:
            raise UserError(f"--refine {given}: {error}") from None
    if faults := [fault for parent in parents for fault in _faults(parent, config)]:
        raise UserError("\n".join(faults))
    return parents


def _faults(parent: Parent, config: SweepConfig) -> Iterator[str]:
    info, what = parent.record.info, f"--refine {place(parent.folder)}"
    trained, judged = info.trainables, dataclasses.asdict(info.objective)
    if sorted(trained) != sorted(config.trainables):
        yield f"{what}: it trained {', '.join(trained)}, this sweep {', '.join(config.trainables)}"
    for name, now in (("metric", config.fit.metric), ("mode", config.fit.mode)):
        if now is not None and judged[name] != now:
            yield f"{what}: it was judged by {name} {judged[name]}, this sweep by {now}"
    if not any(trial.status in ("finished", "pruned") for trial in parent.record.searched):
        ended = sum(trial.status != "unfinished" for trial in parent.record.searched)
        yield f"{what}: {count(ended, 'trial')} ended, none of them well: there is nothing to learn from"


def of(plan: Plan, parents: Sequence[Parent], ignored: frozenset[str], ranges: Sequence[str]) -> Lineage:
    """What a plan takes over.

    Args:
        plan: of the new sweep, in its new ranges.
        parents: that it refines.
        ignored: hyperparameters, by Optuna's names, without influence: trials with other values of them
            count.
        ranges: what is said of the new ones.
    """
    trials: list[TrialRow] = []
    retried: list[list[TrialRow]] = []
    lines: list[tuple[str, str]] = []
    for parent in parents:
        fit, known = _fitting(plan, parent, ignored)
        ended = sum(trial.status != "unfinished" for trial in parent.record.searched)
        changed = _changed(plan, parent)
        lines.append(("refines", f"{parent.name}: {count(ended, 'trial')} ended, {_best(parent)}"))
        if missing := _not_named(parent, parents):
            lines.append(("", f"  it refined {missing}, whose trials count only if that is named here too"))
        if changed or not known:
            retried.append(fit)
            why = changed or ["the fixed hyperparameters differ" if fit else "none lies in the new ranges"]
            lines += [("", f"  its scores are not comparable: {reason}") for reason in why]
            continue
        trials += known
        what = "lies in the new ranges: the searcher knows it, and does not repeat it"
        if len(known) > 1:
            what = "lie in the new ranges: the searcher knows them, and repeats none"
        lines.append(("", f"  {len(known)} {what}"))
    anchors, tried = _anchors(retried, trials)
    if tried:
        again = ", ".join(row.origin for row in tried)
        lines.append(("", f"  ran again already, in a sweep that is comparable: {again}"))
    if anchors:
        again = ", ".join(anchor.origin for anchor in anchors)
        lines.append(("", f"  run again first, as anchors: {again}"))
    about = [{"name": p.name, "folder": str(p.folder), "started": p.record.info.started} for p in parents]
    lines += [("" if place else "ranges", text) for place, text in enumerate(ranges)]
    return Lineage(about, Earlier(trials, anchors), lines)


def _anchors(
    retried: Sequence[Sequence[TrialRow]], known: Sequence[TrialRow]
) -> tuple[list[TrialRow], list[TrialRow]]:
    """The best of sweeps that are not comparable: those to run again, and those that did in one that is."""
    points: dict[tuple[Any, ...], TrialRow] = {}
    for row in (row for rank in itertools.zip_longest(*retried) for row in rank if row is not None):
        points.setdefault(row.point.whole, row)
    best = list(points.values())[:ANCHORS]
    there = {row.point.whole for row in known if row.status != "failed"}
    tried = [row for row in best if row.point.whole in there]
    return [row for row in best if row not in tried], tried


def _not_named(parent: Parent, parents: Sequence[Parent]) -> str:
    """What a parent was refined from, of which nothing is taken over."""
    named = {(other.name, other.record.info.started) for other in parents}
    refined = parent.record.info.parents
    return ", ".join(one.name for one in refined if (one.name, one.started) not in named)


def _best(parent: Parent) -> str:
    return f"best {record_status.best(parent.record)}"


def _changed(plan: Plan, parent: Parent) -> list[str]:
    if not parent.record.info.has_identity:
        return ["its record does not say what code it ran"]
    return [*score_changes(parent.record.info.identity, plan), *_precision_change(plan.config, parent)]


def _precision_change(config: SweepConfig, parent: Parent) -> list[str]:
    """`--precision auto` is fp16 on a GPU and fp32 on a CPU; what PCs an address has is not known yet."""
    if {config.fit.precision, parent.settings.get("precision")} != {"auto"} or config.address is not None:
        return []
    now = "fp16" if placement.gpus_per_trial(config, [session.this_pc()]) else "fp32"
    places = [trial.place for trial in parent.record.searched if "gpu" in trial.place]
    other = {"fp16" if place["gpu"] else "fp32" for place in places} - {now}
    return [f"--precision auto: {name} there, {now} here" for name in sorted(other)]


def _fitting(plan: Plan, parent: Parent, ignored: frozenset[str]) -> tuple[list[TrialRow], list[TrialRow]]:
    """Trials of a parent that are points of the new space, the best first, as they would run here; and those
    whose scores they would have here too, as they ran there."""
    fit, known = [], []
    for model in plan.models:
        prefix = f"{model.name}." if len(plan.models) > 1 else ""
        seen = ranked(parent.record, model.name)
        has_score = {trial.number for trial in seen.order}
        for trial in _best_first(seen):
            if (point := _point(model, trial)) is None or not _is_point(plan, point):
                continue
            row = _row(parent, trial, point)
            if trial.number in has_score:
                fit.append(row)
            held = {**trial.fixed, **trial.params}
            differs = {
                prefix + name for name, value in point.fixed.items() if name in held and held[name] != value
            }
            if differs <= ignored:
                rest = {name: value for name, value in held.items() if name not in point.params}
                known.append(dataclasses.replace(row, fixed=rest))
    return fit, known


def _best_first(seen: Ranked) -> list[TrialRow]:
    order = {trial.number: place for place, trial in enumerate(seen.order)}
    return sorted(seen.trials, key=lambda trial: order.get(trial.number, len(order)))


def _point(model: Model, trial: TrialRow) -> Point | None:
    """A trial as a point of a model's new space; None where it lacks a hyperparameter."""
    space, held = model.space, {**trial.fixed, **trial.params}
    if isinstance(space, ConditionalSpace):
        fixed = {name: value for name, value in space.fixed.items() if name not in trial.params}
        return Point(model.name, dict(trial.params), fixed)
    if not space.domains.keys() <= held.keys():
        return None
    hints = hints_of(space.params_class)
    params: dict[str, ParamValue] = {name: cast(held[name], hints[name]) for name in space.domains}
    return Point(model.name, params, space.fixed)


def _is_point(plan: Plan, point: Point) -> bool:
    try:
        optuna_point(plan.space, point)
    except (LookupError, ValueError):
        return False
    return True


def _row(parent: Parent, trial: TrialRow, point: Point) -> TrialRow:
    """The trial as its record has it; an interrupted one counts with the epochs that it trained."""
    status = "failed" if trial.status == "unfinished" else trial.status
    origin = f"trial {trial.number} of {parent.name}"
    params, fixed = dict(point.params), dict(point.fixed)
    return dataclasses.replace(trial, params=params, fixed=fixed, status=status, origin=origin)
