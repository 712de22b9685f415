"""What each command of the user does to the sweep that runs, and what is answered.

An order changes the record, the settings or the outcome of the run. Tune's loop, searcher and scheduler see
the change in their next turn.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

from sweeps.common import atomic_io
from sweeps.common.errors import UserError, refuse
from sweeps.common.formatting import count, duration, listed, moment, rounded
from sweeps.config import validation
from sweeps.config.control_commands import SETTABLE, Command
from sweeps.config.sweep_config import COMMAND_ONLY, to_yaml
from sweeps.config.sweep_folder import SWEEP_FILE, control_command, resume_command
from sweeps.execution.run_context import RunContext
from sweeps.plan import more_epochs, range_changes, retries
from sweeps.plan.fingerprint import data_and_space
from sweeps.plan.fingerprint import settings as settings_of
from sweeps.plan.plan import Plan
from sweeps.ray_cluster import placement
from sweeps.record import limits, status
from sweeps.record.sweep_info import Outcome, Steered
from sweeps.space.user_points import user_point

Done = tuple[str, Mapping[str, Any]]
"""What is answered, and what the record holds of the command besides, by its names in Steered."""


def carry_out(context: RunContext, order: Command) -> Done:
    """Carry out a command.

    Raises:
        UserError: why that is impossible; nothing has changed then.
        OSError: the settings can't be written, or the storage does not answer.
    """
    return _ORDERS[order.name](context, order)


def _stop(context: RunContext, order: Command) -> Done:
    record, number = context.record, order.trial
    live = [trial.number for trial in record.live if trial.confirms is None]
    there = f"Trials that have not ended: {listed(live)}"
    if number >= len(record.trials):
        raise UserError(f"stop {number}: {status.no_such_trial(record)}. {there}")
    trial = record.trials[number]
    if trial.confirms is not None:
        raise UserError(
            f"stop {number}: it reruns trial {trial.confirms} with a new seed, and the confirmation needs it"
        )
    if trial.status != "unfinished":
        raise UserError(
            f"stop {number}: it has ended: {trial.status} after {count(len(trial.epochs), 'epoch')}. {there}"
        )
    if record.is_to_stop(number):
        raise UserError(f"stop {number}: trial {number} is being stopped")
    when = "at its next step, or at the end of its epoch where its data can't be left inside one"
    when += f", and after {duration(context.config.stop_grace)} (--stop-grace) in any case"
    if record.info.paused_at is not None or trial.is_paused:
        when = "now"
    return f"Trial {number} stops {when}. Its scores so far count, and it is not tried again.", {}


def _try(context: RunContext, order: Command) -> Done:
    record = context.record
    _refuse_in_confirmation(context, "try")
    point = user_point(context.plan.space, order.values)
    for trial in record.searched:
        if trial.point.whole == point.whole:
            raise UserError(f"try: trial {trial.number} has these hyperparameters; it is {trial.status}")
    waiting = record.points_to_try()
    if any(each.whole == point.whole for each in waiting):
        raise UserError("try: these hyperparameters are waiting to be tried already")
    number, planned = len(record.trials) + len(waiting), record.most_trials
    text = f"Trial {number} will have these hyperparameters; it begins when a trial has ended"
    if len(record.searched) + len(waiting) >= planned:
        text += f". It comes on top: {planned + 1:,} trials in all"
    if status.is_finishing(record):
        text += ". finish holds: no other trial begins after it"
    return f"{text}.", {"point": vars(point)}


def _retry(context: RunContext, order: Command) -> Done:
    record = context.record
    if status.is_in_confirmation(record):
        again = resume_command(context.plan.folder, "--retry", *map(str, order.retried))
        raise UserError(
            "retry: the search has ended, and its best trials are being confirmed. Afterwards, or after "
            f"Ctrl-C: {again}"
        )
    retry = retries.asked(context.plan, record, [*map(str, order.retried)], "retry")
    if not retry.kept_epochs:
        raise UserError(f"retry: {retry.text}")
    for number in retry.kept_epochs:  # where it does not answer, the record is not to hold what is refused
        context.plan.storage.epochs(number)
    is_paused = record.info.paused_at is not None
    begins = "once you give go" if is_paused else "as soon as a slot is free, before any new trial"
    each = "It" if len(retry.kept_epochs) == 1 else "Each"
    return f"{retry.text} {each} begins {begins}.", {"retried": retries.noted(record, retry)}


def _set(context: RunContext, order: Command) -> Done:
    plan, had = context.plan, context.config.max_epochs
    if order.ranges:
        _refuse_in_confirmation(context, f"set {' '.join(order.ranges)}")
        range_changes.refuse_unknown(plan, [*order.ranges], [name.replace("_", "-") for name in SETTABLE])
        plan = range_changes.with_ranges(plan, order.ranges)
    found = range_changes.changes(plan, context.record)
    range_changes.refuse_prepared(found, "set")
    texts = [f"{change}." for change in found]
    asked = dataclasses.replace(context, plan=plan)
    others = {name: check for name, check in _CHECKS.items() if name in order.values}
    texts += [check(asked, order.values[name]) for name, check in others.items()]
    if len(others) < len(order.values):
        texts.append(_check_max_epochs(asked, order.values))
    apply(context, plan, order.values)
    if order.ranges:
        context.record.plan_trials(context.config.num_trials or 0)  # fewer, where the old ranges had no more
        texts.append(range_changes.effect(context.plan, context.record))
    if context.config.max_epochs > had and context.record.info.paused_at is None:
        context.end.stop(Outcome.PAUSED)  # `wait_for_go` goes on at once
    return " ".join(texts), {"ranges": order.ranges}


def _pause(context: RunContext, order: Command) -> Done:
    if (paused_at := context.record.info.paused_at) is not None:
        raise UserError(f"pause: the sweep has been paused {moment(paused_at)}")
    context.end.stop(Outcome.PAUSED)
    again = control_command(context.plan.folder, "go")
    return (
        "The trials leave at their next step, or at the end of their epoch where their data can't be left "
        f"inside one; then their processes end. To continue: {again}",
        {},
    )


def _go(context: RunContext, order: Command) -> Done:
    if context.record.info.paused_at is None:
        raise UserError("go: the sweep is not paused")
    context.end.outcome, context.record.is_held = Outcome.RUNNING, False
    unfinished = status.unfinished(context.record)
    return f"The sweep continues where it was left, with {count(unfinished, 'unfinished trial')}.", {}


def _finish(context: RunContext, order: Command) -> Done:
    record = context.record
    _refuse_in_confirmation(context, "finish")
    if not (begun := len(record.searched)):
        raise UserError("finish: no trial has begun; Ctrl-C ends the sweep")
    if status.is_finishing(record):
        raise UserError(f"finish: already finishing; {count(status.unfinished(record), 'trial')} unfinished")
    texts = [f"No new trial begins; the unfinished ones ({status.unfinished(record)}) end as usual"]
    if dropped := len(record.points_to_try()):
        texts.append(f"; the chosen ones that had not begun ({dropped}) are given up")
    if context.config.confirm:
        texts.append("; then the best trials are confirmed")
    texts.append("; then the sweep ends with its report.")
    if record.info.paused_at is not None:
        texts.append(" It is paused: give go, too.")
    apply(context, context.plan, {"num_trials": begun})
    return "".join(texts), {}


def end_search_if_enough(context: RunContext) -> None:
    """End the search, and stop the trials that have begun, where a limit of the sweep is reached: as `finish`
    and a `stop` for each do."""
    record, config = context.record, context.config
    if not context.end.is_running or status.is_in_confirmation(record) or status.is_finishing(record):
        return
    found = limits.reached(config, record, context.gpus_per_trial * config.workers_per_trial)
    if found is None:
        return
    limit, why = found
    live = [trial.number for trial in record.live if trial.confirms is None]
    given = [["stop", str(number)] for number in live if not record.is_to_stop(number)]
    with record.together():
        record.plan_trials(len(record.searched))
        for words in [*given, ["finish"]]:
            record.note_steered(Steered(words, f"{limit}: {why}", time.time(), by=limit))
    # sweep.yaml keeps what was asked for: who repeats or refines the sweep wants as many.
    context.plan = context.plan.changed(num_trials=len(record.searched))
    then = f"; {count(len(live), 'unfinished trial')} {'ends' if len(live) == 1 else 'end'}" if live else ""
    context.say(f"{limit}: {why}. The search ends{then}.")


_ORDERS: dict[str, Callable[[RunContext, Command], Done]] = {
    "stop": _stop,
    "try": _try,
    "retry": _retry,
    "set": _set,
    "pause": _pause,
    "go": _go,
    "finish": _finish,
}


def apply(context: RunContext, plan: Plan, settings: Mapping[str, Any]) -> None:
    """Go on by a plan with other settings, in the folder of the sweep too: a resume finds them there. Where
    they can't be written, nothing has changed."""
    record, plan = context.record, plan.changed(**settings)
    settings = {name: value for name, value in settings.items() if name not in COMMAND_ONLY}
    with record.together():
        had = record.about.get("raised", [])
        more_epochs.note(plan, record)
        try:  # after the line that holds what is in no file, and before all others: a kill may come between
            atomic_io.write(plan.folder / SWEEP_FILE, to_yaml(plan.config))
        except OSError:
            if record.about.get("raised", []) != had:
                record.note("raised", had)
            raise
        if "num_trials" in settings:
            record.plan_trials(settings["num_trials"])
        before, now = record.info.identity, settings_of(plan.config)
        ranges = {name: now[name] for name in ("ranges", "params")}
        changed = {**before["settings"], **ranges, **settings}
        record.note("identity", {**before, **data_and_space(plan), "settings": changed})
    context.plan = plan.changed(lr_schedule=None)


def _check_num_trials(context: RunContext, most: int) -> str:
    _refuse_in_confirmation(context, "set num-trials")
    record = context.record
    begun, tries = len(record.searched), len(record.points_to_try())
    points = begun + context.plan.points_left(record)
    if most > points:
        there = f"{points:,.0f}"
        raise UserError(
            f"set num-trials {most:,}: the search space has {there} points; the nearest is {there}"
        )
    if most < begun:
        return f"{count(begun, 'trial')} have begun already: no new one begins, and those end as usual."
    if most < begun + tries:
        return f"{begun + tries:,} trials in all, with the {tries} that you have chosen."
    withdrawn = " This withdraws finish." if status.is_finishing(record) and most > begun else ""
    return f"{count(most, 'trial')} in all: {most - begun:,} are still to begin.{withdrawn}"


def _check_max_concurrent(context: RunContext, most: int | None) -> str:
    if most is None:
        return "As many trials at a time as the resources allow."
    unbound = context.config.changed(max_concurrent=None)
    fitting = placement.most(unbound, context.cluster.pcs, context.gpus_per_trial)
    text = f"At most {count(most, 'trial')} at a time"
    if most > fitting:
        text += f"; {fitting} fit on the PCs that are there"
    return f"{text}. Trials that train now go on."


def _check_share(context: RunContext, share: float) -> str:
    others = context.places.allotment.others
    if context.record.info.waits_since is not None:
        beside = ", once the sweep begins: it waits in the queue"
    else:
        beside = f", beside {', '.join(others)}" if others else "; no other sweep has claimed places there"
    return f"Share of the PCs: {share:g}{beside}."


def _check_time_budget_hours(context: RunContext, hours: float | None) -> str:
    used_s = context.record.elapsed_s
    if hours is None:
        return "No time limit."
    if hours * 3600 <= used_s:
        raise UserError(
            f"set time-budget-hours {hours:g}: the sweep has run {duration(used_s)}; give more than "
            f"{rounded(used_s / 3600)} hours"
        )
    return f"The sweep stops in {duration(hours * 3600 - used_s)}, if it has not ended by then."


def _check_max_epochs(context: RunContext, values: Mapping[str, Any]) -> str:
    record, had = context.record, context.config.max_epochs
    epochs, schedule = values.get("max_epochs", had), values.get("lr_schedule")
    typed = f"set max-epochs={epochs}"
    if epochs < had:
        raise UserError(validation.fewer_epochs(typed, had))
    if status.is_in_confirmation(record):
        raise UserError(
            f"{typed}: the best trials are being confirmed with {had} epochs. Afterwards: "
            f"{resume_command(context.plan.folder, '--max-epochs', str(epochs))}"
        )
    asked = {name: values[name] for name in ("num_trials",) if name in values}
    plan = context.plan.changed(max_epochs=epochs, lr_schedule=schedule, typed=frozenset(asked), **asked)
    more_epochs.check(plan, record, more_epochs.COMMAND)
    if epochs == had:
        return f"The sweep has {had} epochs."
    found = more_epochs.lines(plan, record, more_epochs.supposed(plan, record))
    then = "Trials that train now save what they have, and go on in new processes."
    return f"{'. '.join(line[0].upper() + line[1:] for line in found)}. {then}"


def _check_limit(name: str) -> Callable[[RunContext, Any], str]:
    def check(context: RunContext, value: float | None) -> str:
        changed = context.config.changed(**{name: value})
        refuse(validation.check(changed))
        return f"The search ends {ends}." if (ends := limits.described(changed)) else "No limit."

    return check


_CHECKS: dict[str, Callable[[RunContext, Any], str]] = {
    "num_trials": _check_num_trials,
    "max_concurrent": _check_max_concurrent,
    "share": _check_share,
    "time_budget_hours": _check_time_budget_hours,
    **{name: _check_limit(name) for name in ("target", "patience", "max_gpu_hours")},
}


def _refuse_in_confirmation(context: RunContext, what: str) -> None:
    if status.is_in_confirmation(context.record):
        raise UserError(
            f"{what}: the search has ended, and its best trials are being confirmed. Afterwards, add trials "
            f"by {resume_command(context.plan.folder, '--num-trials', 'N')}"
        )
