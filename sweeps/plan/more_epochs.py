"""More epochs for a sweep than it had: which trials go on, from where, and what that costs.

The old end becomes an epoch like others: where it is a rung now, the scheduler judges the trials that have
trained up to it; else all of them go on. So a sweep whose epochs were raised decides as one that had them
from its start.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from sweeps.common.errors import UserError
from sweeps.common.formatting import command, count, duration, listed, rounded, shown_path
from sweeps.config.sweep_config import SweepConfig
from sweeps.kinds.trainable import LightningTrainable
from sweeps.plan.plan import Plan
from sweeps.record.journal import UnwrittenJournal
from sweeps.record.record import Record
from sweeps.record.sweep_info import RaisedEpochs
from sweeps.record.trials import TrialRow
from sweeps.search.rungs import rungs, spans_left

SETTINGS = frozenset({"max_epochs"})
"""Settings that say how far a trial trains, and not by what code; the record has their changes itself."""


class Way(NamedTuple):
    """How a flag, or a command to a running sweep, is typed."""

    epochs: str
    schedule: str


FLAGS = Way("--max-epochs {}", "--lr-schedule {}")
COMMAND = Way("set max-epochs={}", "lr-schedule={}")


def is_raised(config: SweepConfig, record: Record) -> bool:
    """Whether more epochs are asked for than the sweep has."""
    return config.max_epochs > (record.info.max_epochs or config.max_epochs)


def with_noted(plan: Plan, record: Record) -> Plan:
    """The plan of a resume with the epochs of the record, where a kill came before these were in
    sweep.yaml."""
    last = record.info.raised[-1:]
    is_before = any(plan.config.max_epochs == each.before for each in last)
    if not is_before or "max_epochs" in plan.config.typed:
        return plan
    return plan.changed(max_epochs=last[0].epochs)


def to_open(config: SweepConfig, record: Record) -> list[int]:
    """Numbers of the trials and reruns that have trained all epochs of their time, and fewer than now, and
    of those that a limit of the sweep had stopped by then, the best one first. One that has ended by itself
    stays ended."""
    raised_at = (
        math.inf if is_raised(config, record) else max((r.time for r in record.info.raised), default=0)
    )
    short = [
        trial.number
        for trial in record.trials
        if len(trial.epochs) < config.max_epochs
        and (
            (trial.status == "finished" and not trial.reason)
            or 0 < _stopped_by_limit_at(record, trial) < raised_at
        )
    ]
    order = {number: place for place, number in enumerate(record.leaders(len(record.searched)))}
    return sorted(short, key=lambda number: order.get(number, math.inf))


def _stopped_by_limit_at(record: Record, trial: TrialRow) -> float:
    """When a limit of the sweep has stopped a trial, in seconds since 1970; 0 where none has."""
    stop = record.info.stopped.get(trial.number)
    is_stopped = trial.status in ("stopped", "unfinished") and bool(record.why_stopped(trial.number))
    return stop.time if stop is not None and stop.by and is_stopped else 0.0


def supposed(plan: Plan, record: Record) -> Record:
    """A record as it will be once its trials are opened for the epochs of the plan, and as many are planned;
    nothing is written."""
    found = Record.read(record.folder, UnwrittenJournal)
    chosen = len(record.points_to_try()) + len(plan.new_tries(record))
    found.plan_trials(max(plan.trials_in_all(record), len(record.searched) + chosen))
    numbers = to_open(plan.config, found)
    for number in numbers:
        found.open_again(number, len(found.trials[number].epochs), _why(plan))
    for number in numbers:
        trial = found.trials[number]
        if trial.confirms is None and plan.scheduler.ends_at(plan.config, found, number, len(trial.epochs)):
            found.end(number, "pruned")
    for trial in found.live:
        if plan.waits(found, trial):
            found.note_pause(trial.number)
    return found


def check(plan: Plan, record: Record, way: Way = FLAGS) -> None:
    """Refuse more epochs that the sweep can't have, or that are not said well enough.

    Raises:
        UserError: why, and what to do.
    """
    config, before = plan.config, record.info.max_epochs or 0
    typed, chosen = way.epochs.format(config.max_epochs), config.lr_schedule
    if not is_raised(config, record):
        last = record.info.raised[-1:]
        if chosen is not None and all(
            (each.epochs, each.schedule) != (config.max_epochs, chosen) for each in last
        ):
            raise UserError(
                f"{way.schedule.format(chosen)}: it goes with more epochs than the sweep has, as in "
                f"{way.epochs.format(3 * before)}"
            )
        return
    if not plan.scheduler.TAKES_MORE_EPOCHS:
        anew = command("run", "--refine", shown_path(plan.folder), "--max-epochs", str(config.max_epochs))
        raise UserError(
            f"{typed}: scheduler {config.scheduler} has decided for trials of {before} epochs, and might have"
            f" decided otherwise for more. A new sweep that learns from this one: {anew}"
        )
    of_own = (m.trainable for m in plan.models if not isinstance(m.trainable, LightningTrainable))
    own = [trainable.called for trainable in of_own]
    if chosen == "restart" and own:
        raise UserError(
            f"{way.schedule.format(chosen)}: {own[0]} makes the schedule of its learning rate itself. Give "
            "anew or keep"
        )
    state = supposed(plan, record)
    if trapped := _trapped(plan, state):
        _refuse_trap(plan, state, trapped, way)


def note(plan: Plan, record: Record) -> None:
    """Write that the sweep has the epochs of the plan from now on, if that is new."""
    if is_raised(plan.config, record):
        before, config = record.info.max_epochs or 0, plan.config
        raised = RaisedEpochs(before, config.max_epochs, config.lr_schedule or "", time.time())
        record.note("raised", [*record.about.get("raised", []), vars(raised)])


def open_trials(plan: Plan, record: Record) -> None:
    """Open the trials again that have trained fewer epochs than there are now."""
    for number in to_open(plan.config, record) if record.info.raised else ():
        trial = record.trials[number]
        record.open_again(number, len(trial.epochs), _why(plan))


def prepared(plan: Plan, record: Record, trial: TrialRow) -> TrialRow:
    """A trial that begins to train now. Where it was to train fewer epochs before, it is written first what
    becomes of what it has trained, as the user has chosen."""
    number, epochs, raised = trial.number, plan.config.max_epochs, record.info.raised
    if not raised or (trial.planned_epochs or raised[0].before) == epochs:
        return trial
    last, is_searched = len(trial.epochs), trial.confirms is None
    if last and is_searched and plan.scheduler.ends_at(plan.config, record, number, last):
        return trial  # it begins because its weights are kept, and ends at once
    chosen, length = raised[-1].schedule, trial.schedule.get("epochs", 0)
    where = _continues_after(plan, trial, chosen)
    if 0 < length < epochs and (not chosen or (chosen == "keep" and trial.schedule.get("is_final"))):
        where = 0  # nobody was asked: it had no epoch then, or had failed
    if not where and plan.storage.epochs(number):
        plan.storage.remove(number)
    with record.together():
        if trial.epochs and not where:
            why = f"trained anew {_why(plan)}"
            record.open_again(number, 0, why, passed_epoch=len(trial.epochs))
        if where and chosen == "restart":
            record.note_trial(number, schedule_from=where)
        record.note_trial(number, planned_epochs=epochs)
    return record.trials[number]


def lines(plan: Plan, record: Record, state: Record) -> Iterator[str]:
    """What more epochs change and cost; `state` is what `supposed` has found."""
    config, before = plan.config, record.info.max_epochs or 0
    opened = [state.trials[n] for n in to_open(config, record) if record.trials[n].confirms is None]
    ended = [trial.number for trial in opened if trial.status != "unfinished"]
    waiting = [trial.number for trial in opened if trial.is_paused]
    further = [t.number for t in opened if t.number not in (*ended, *waiting)]
    if config.scheduler == "none":
        at = "nothing is pruned"
    else:
        at = f"epoch {before} is {'a rung now' if before in rungs(config) else 'no rung'}"
    becomes = [
        f"{_listed(numbers)} {does if len(numbers) == 1 else do}"
        for numbers, does, do in (
            (further, "goes on", "go on"),
            (waiting, "waits for its turn", "wait for their turn"),
            (ended, "is pruned there", "are pruned there"),
        )
        if numbers
    ]
    stopped = [trial for trial in opened if _stopped_by_limit_at(record, record.trials[trial.number])]
    trained = len(opened) - len(stopped)
    did = f"{count(trained, 'trial') if trained else 'no trial'} trained {before} epochs"
    if stopped:
        did += f", and a limit stopped {count(len(stopped), 'trial')}"
    told = ": ".join(filter(None, [did, ", ".join(becomes)]))
    yield f"epochs {before} -> {config.max_epochs}: {at}; {told}"
    yield _cost(plan, state, {trial.number for trial in opened})
    if config.lr_schedule is None:
        notes = (model.trainable.note_on_more_epochs() for model in plan.models)
        yield from dict.fromkeys(filter(None, notes))


def where_it_begins(plan: Plan, record: Record, trial: TrialRow) -> str:
    """Why a trial that has trained epochs begins anew for more of them; "" where it goes on."""
    if not is_raised(plan.config, record) or not trial.epochs:
        return ""
    if _continues_after(plan, trial, plan.config.lr_schedule):
        return ""
    is_asked = plan.config.lr_schedule == "anew" or trial.confirms is not None
    why = "" if is_asked else ": its weights are gone"
    return f"trains anew from its first epoch{why}"


def _continues_after(plan: Plan, trial: TrialRow, chosen: str | None) -> int:
    """The epoch of the checkpoint from which a trial goes on for more epochs; 0: it begins anew. Reruns do,
    since all of them are to train alike."""
    return 0 if chosen == "anew" or trial.confirms is not None else plan.saved_epoch(trial)


def _why(plan: Plan) -> str:
    return f"for {plan.config.max_epochs} epochs"


def _cost(plan: Plan, state: Record, opened: Collection[int]) -> str:
    epochs, anew = _to_train(plan, state, opened)
    text = f"about {count(epochs, 'epoch')} to train in all"
    if anew:
        again = sum(len(trial.epochs) for trial in anew)
        which = _listed([trial.number for trial in anew])
        text += f", {again:,} of them again: {which} {'begins' if len(anew) == 1 else 'begin'} anew"
    seconds = [row.seconds for trial in state.trials for row in trial.epochs.values()]
    if seconds:
        epoch_s = statistics.fmean(seconds)
        text += f"; {duration(epochs * epoch_s)} of training, at {rounded(epoch_s)} s an epoch"
    return text


def _to_train(plan: Plan, state: Record, opened: Collection[int]) -> tuple[int, list[TrialRow]]:
    """Epochs that are to be trained, and the trials that begin anew among them. One that trains now saves
    what it has when it leaves its process."""
    chosen = plan.config.lr_schedule
    anew = [
        trial
        for trial in state.live
        if trial.confirms is None
        and (chosen == "anew" or trial.number in opened)
        and trial.epochs
        and not trial.is_paused
        and not _continues_after(plan, trial, chosen)
    ]
    cohorts = plan.scheduler.cohorts(plan.config, state.planned_trials)
    spans = [each for cohort in cohorts for each in spans_left(state, cohort)]
    again = sum(len(trial.epochs) for trial in anew)
    return round(sum(trials * span for trials, span in spans)) + again, anew


def _trapped(plan: Plan, state: Record) -> list[TrialRow]:
    """Trials that would go on behind the end of their learning rate's schedule, or may."""
    chosen, epochs = plan.config.lr_schedule, plan.config.max_epochs
    found = [
        trial
        for trial in state.live
        if 0 < trial.schedule.get("epochs", 0) < epochs and _continues_after(plan, trial, chosen)
    ]
    if chosen is None:
        return found
    return [trial for trial in found if trial.schedule.get("is_final")] if chosen == "keep" else []


def _refuse_trap(plan: Plan, state: Record, trapped: Sequence[TrialRow], way: Way) -> None:
    first, *others = sorted(trapped, key=lambda trial: trial.number)
    known, epochs = first.schedule, plan.config.max_epochs
    what = f"the learning rate of trial {first.number} is scheduled for {known['epochs']:g} epochs"
    what += f" ({known['words']})" + (", and takes no step behind them" if known.get("is_final") else "")
    more = f", and that of {count(len(others), 'more trial')}" if others else ""
    opened = [trial.number for trial in state.live if trial.attempts]
    cost = {each: _to_train(plan.changed(lr_schedule=each), state, opened)[0] for each in ("restart", "anew")}
    choices = {
        "restart": "they go on from their weights, with a schedule for the epochs that are left: about "
        f"{cost['restart']:,} epochs",
        "anew": f"they train again from the start, with a schedule for {epochs} epochs: about "
        f"{cost['anew']:,} epochs",
        "keep": "they go on with the schedule as it is"
        if not any(trial.schedule.get("is_final") for trial in trapped)
        else "",
    }
    typed = way.epochs.format(epochs)
    told = "\n".join(f"  {way.schedule.format(name)}: {text}" for name, text in choices.items() if text)
    raise UserError(f"{typed}: {what}{more}. Say what becomes of it:\n{told}")


def _listed(numbers: Sequence[int]) -> str:
    return f"trial{'s' if len(numbers) > 1 else ''} {listed(sorted(numbers))}"
