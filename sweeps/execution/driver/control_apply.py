"""What each command of the user does to the sweep that runs, and what is answered.

An order changes the record, the settings or the outcome of the run. Tune's loop, searcher and scheduler see
the change in their next turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sweeps.common import atomic_io
from sweeps.common.errors import UserError
from sweeps.common.formatting import count, duration, moment
from sweeps.config.control_commands import Command
from sweeps.config.sweep_config import to_yaml
from sweeps.config.sweep_folder import SWEEP_FILE, control_command, resume_command
from sweeps.execution.run_context import RunContext
from sweeps.ray_cluster import placement
from sweeps.record import status
from sweeps.record.sweep_info import Outcome
from sweeps.space.user_points import user_point

MOST_LISTED = 12
"""Numbers of trials in a message."""
Done = tuple[str, Mapping[str, Any]]
"""What is answered, and the point of a `try`."""


def carry_out(context: RunContext, order: Command) -> Done:
    """Carry out a command.

    Raises:
        UserError: why that is impossible; nothing has changed then.
        OSError: the settings can't be written.
    """
    return _ORDERS[order.name](context, order)


def _stop(context: RunContext, order: Command) -> Done:
    record, number = context.record, order.trial
    live = [trial.number for trial in record.live if trial.confirms is None]
    listed = ", ".join(map(str, live[:MOST_LISTED])) + (", ..." if len(live) > MOST_LISTED else "")
    there = f"Trials that have not ended: {listed or 'none'}"
    if number >= len(record.trials):
        begun = f"{count(len(record.trials), 'trial')} {'has' if len(record.trials) == 1 else 'have'} begun"
        raise UserError(f"stop {number}: no such trial; {begun}, and the first is trial 0. {there}")
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
        if trial.point.key == point.key:
            raise UserError(f"try: trial {trial.number} has these hyperparameters; it is {trial.status}")
    waiting = record.points_to_try()
    if any(each.key == point.key for each in waiting):
        raise UserError("try: these hyperparameters are waiting to be tried already")
    number, planned = len(record.trials) + len(waiting), record.most_trials
    text = f"Trial {number} will have these hyperparameters; it begins when a trial has ended"
    if len(record.searched) + len(waiting) >= planned:
        text += f". It comes on top: {planned + 1:,} trials in all"
    if status.is_finishing(record):
        text += ". finish holds: no other trial begins after it"
    return f"{text}.", vars(point)


def _set(context: RunContext, order: Command) -> Done:
    texts = [_CHECKS[name](context, value) for name, value in order.values.items()]
    apply(context, order.values)
    return " ".join(texts), {}


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
    apply(context, {"num_trials": begun})
    return "".join(texts), {}


_ORDERS: dict[str, Callable[[RunContext, Command], Done]] = {
    "stop": _stop,
    "try": _try,
    "set": _set,
    "pause": _pause,
    "go": _go,
    "finish": _finish,
}


def apply(context: RunContext, settings: Mapping[str, Any]) -> None:
    """Change settings of the sweep, in its folder too: a resume finds them there."""
    record, plan = context.record, context.plan.changed(**settings)
    atomic_io.write(plan.folder / SWEEP_FILE, to_yaml(plan.config))
    with record.together():
        if "num_trials" in settings:
            record.plan_trials(settings["num_trials"])
        before = record.info.identity
        record.note("identity", {**before, "settings": {**before["settings"], **settings}})
    context.plan = plan


def _check_num_trials(context: RunContext, most: int) -> str:
    _refuse_in_confirmation(context, "set num-trials")
    record, points = context.record, context.plan.space.size()
    begun, tries = len(record.searched), len(record.points_to_try())
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


def _check_time_budget_hours(context: RunContext, hours: float | None) -> str:
    used_s = context.record.elapsed_s
    if hours is None:
        return "No time limit."
    if hours * 3600 <= used_s:
        raise UserError(
            f"set time-budget-hours {hours:g}: the sweep has run {duration(used_s)}; give more than "
            f"{used_s / 3600:.2g} hours"
        )
    return f"The sweep stops in {duration(hours * 3600 - used_s)}, if it has not ended by then."


_CHECKS: dict[str, Callable[[RunContext, Any], str]] = {
    "num_trials": _check_num_trials,
    "max_concurrent": _check_max_concurrent,
    "time_budget_hours": _check_time_budget_hours,
}


def _refuse_in_confirmation(context: RunContext, what: str) -> None:
    if status.is_in_confirmation(context.record):
        raise UserError(
            f"{what}: the search has ended, and its best trials are being confirmed. Afterwards, add trials "
            f"by {resume_command(context.plan.folder, '--num-trials', 'N')}"
        )
