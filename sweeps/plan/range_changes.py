"""Other ranges for a sweep that has begun: what changes, and what becomes of its trials."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sweeps.common.errors import UserError, reason_of, refuse
from sweeps.common.formatting import count
from sweeps.common.param_types import hints_of, shown
from sweeps.common.yaml_values import nearest
from sweeps.plan import models as plan_models
from sweeps.plan.fingerprint import of_model
from sweeps.plan.models import Model
from sweeps.plan.plan import Plan
from sweeps.record.record import Record
from sweeps.record.sweep_info import Identity
from sweeps.search.known_trials import KnownTrials
from sweeps.space.optuna_space import point_within


class Change(NamedTuple):
    """A hyperparameter whose range differs from that in the record."""

    model: Model
    name: str
    key: str
    """Of its range in an identity."""
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.key}: {f'{self.old} -> {self.new}' if self.old != self.new else f'stays {self.new}'}"


def changes(plan: Plan, record: Record) -> list[Change]:
    """The ranges that the plan has by --ranges, or by `set`, in place of those in the record."""
    before = record.info.identity
    old, new = before["settings"].get("ranges", {}), plan.config.ranges
    asked = {name: None for name in {**old, **new} if old.get(name) != new.get(name)}
    found = list[Change]()
    for model in plan.models:
        for name in plan_models.own(asked, model.name):
            key = f"{name}{of_model(plan, model)}"
            was = before["space"].get(key) or _fixed_before(model, name, record)
            is_now = model.space.exactly().get(name) or f"fixed at {shown(model.space.fixed.get(name))}"
            found.append(Change(model, name, key, was, is_now))
    return found


def _fixed_before(model: Model, name: str, record: Record) -> str:
    own = (trial.fixed for trial in reversed(record.searched) if trial.trainable == model.name)
    return next((f"fixed at {shown(each[name])}" for each in own if name in each), "not set")


def refuse_prepared(found: Sequence[Change], where: str) -> None:
    """Refuse another range of a hyperparameter by which data is prepared: trials that were trained need the
    data of theirs."""
    refuse(
        [
            f"{where} {each.name}: data is prepared for each of its values (PREPARE_PARAMS of "
            f"{each.model.name}), so its range stays as it is. A new sweep can have another: "
            f"--refine NAME --ranges {each.name}=..."
            for each in found
            if each.name in each.model.trainable.prepare_params
        ]
    )


def as_asked(plan: Plan, record: Record, found: Sequence[Change], now: Identity) -> Identity:
    """What the record says of the sweep, with the ranges of now: the user has asked for these."""
    before = record.info.identity
    if not found:
        return before
    keys, lines = {each.key for each in found}, {f"data{of_model(plan, each.model)}" for each in found}
    space = {key: text for key, text in before["space"].items() if key not in keys}
    space |= {key: text for key, text in now["space"].items() if key in keys}
    data = {**before["data"], **{key: now["data"][key] for key in lines}}
    settings = {**before["settings"], "ranges": now["settings"]["ranges"]}
    names = {each.name for each in found}
    settings["params"] = {  # one that had a value has a range now
        name: value
        for name, value in settings.get("params", {}).items()
        if name in now["settings"]["params"] or name.rpartition(".")[2] not in names
    }
    return {**before, "settings": settings, "space": space, "data": data}


def with_ranges(plan: Plan, ranges: Mapping[str, Any]) -> Plan:
    """The plan of a sweep that runs, in other ranges.

    Raises:
        UserError: a name or a range does not fit; every fault, one a line.
    """
    config = plan.config.with_ranges(ranges)
    config = config.changed(freeze={}, typed=frozenset({"ranges"}))  # --freeze was typed for the start
    try:
        known = {model.name: model.trainable for model in plan.models}  # as they are in the sweep
        models = plan_models.find(config, plan.searcher, known)
        changed = plan.changed(models, ranges=config.ranges, params=config.params)
        plan.searcher.check(changed.space)
    except UserError as error:
        raise UserError(str(error).replace("--ranges ", "set ")) from None
    except (Exception, SystemExit) as error:  # of the user's code: the sweep that runs goes on
        raise UserError(f"set {' '.join(ranges)}: {reason_of(error)}") from error
    return changed


def refuse_unknown(plan: Plan, names: Sequence[str], settings: Sequence[str]) -> None:
    """Refuse names that are neither a setting that can change nor a hyperparameter."""
    own = [(model, f"{model.name}." if len(plan.models) > 1 else "") for model in plan.models]
    swept = [f"{prefix}{name}" for model, prefix in own for name in model.space.describe()]
    known = {name for model, _ in own for name in hints_of(model.trainable.params_class)}
    known |= {f"{prefix}{name}" for model, prefix in own for name in hints_of(model.trainable.params_class)}
    faults = list[str]()
    for name in names:
        if name not in known:
            typed = name.replace("_", "-")
            near = nearest(typed, settings) or nearest(name, [*swept, *known])
            faults.append(
                f"set {name}: no setting that can change while a sweep runs, and no hyperparameter.{near} "
                f"Settings: {', '.join(settings)}. Hyperparameters of the space: {', '.join(swept)}"
            )
    refuse(faults)


def effect(plan: Plan, record: Record) -> str:
    """What becomes of the trials so far, and of those to come."""
    return " ".join(_sentences(plan, record))


def _sentences(plan: Plan, record: Record) -> Iterator[str]:
    known = KnownTrials(plan.config, plan.space, record)
    earlier, begun = len(record.earlier.trials), len(record.searched)
    inside = [trial for trial, point in zip(known.trials, known.points, strict=True) if point is not None]
    own = [trial for trial in inside if trial.number >= 0]
    name, learns = plan.config.searcher, plan.searcher.AVOIDS_INFEASIBLE
    if begun:
        lie = f"{len(own):,} {'lies' if len(own) == 1 else 'lie'}" if own else "none lies"
        learnt = f"learns from {'it' if len(own) == 1 else 'these'} alone" if own else "begins anew"
        then = f", and {name} {learnt}" if learns else ""
        yield f"Of {count(begun, 'trial')} so far, {lie} in the new ranges{then}."
    if earlier:
        of = count(earlier, "trial")
        yield f"Of {of} of earlier sweeps, {len(inside) - len(own):,} lie in them."
    if record.live:
        yield "Trials that have begun go on."
    outside = sum(point_within(plan.space, point) is None for point in record.points_to_try())
    if outside:
        lie = "lies outside and is" if outside == 1 else "lie outside and are"
        yield f"{count(outside, 'point')} that you have chosen {lie} tried all the same."
    to_come: float = max(0, (plan.config.num_trials or 0) - begun - outside)
    if (left := plan.points_left(record)) < math.inf:
        points = count(round(plan.space.size()), "point")
        yield f"{left:,.0f} of {points} {'is' if left == 1 else 'are'} left to try."
        to_come = min(to_come, left)
    epochs = round(to_come) * plan.config.max_epochs
    yield (
        f"{count(round(to_come), 'trial')} from them {'is' if to_come == 1 else 'are'} to come, at most "
        f"{count(epochs, 'epoch')}."
        if to_come
        else "No trial is to come: give a larger num-trials."
    )
