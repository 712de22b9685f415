"""The start of a run of a sweep: what has changed since an earlier run, and where each trial continues.

Searchers and schedulers read the record, so a resume is a new run of Tune over the old record.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.common.errors import UserError, refuse
from sweeps.common.formatting import count, duration, moment, shown_path
from sweeps.common.param_types import hints_of, shown, shown_range
from sweeps.config.control_commands import SETTABLE
from sweeps.config.sweep_config import SweepConfig
from sweeps.config.sweep_folder import control_command, resume_command
from sweeps.config.validation import refuse_other
from sweeps.plan import folder, models, more_epochs, range_changes, retries
from sweeps.plan.describe import describe_confirmation, describe_disk
from sweeps.plan.fingerprint import changes, identity, score_changes
from sweeps.plan.plan import Plan
from sweeps.plan.range_changes import Change
from sweeps.plan.retries import Retry
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.sweep_info import Identity, Outcome, Run, Steered
from sweeps.record.trials import Ending, TrialRow, why_diverged
from sweeps.storage import retention


@dataclass(frozen=True)
class ResumeState:
    """The state of a sweep that is to be resumed, for the user."""

    text: str
    is_finished: bool


def check_resume(plan: Plan, record: Record) -> ResumeState:
    """The state of a sweep that is to be resumed.

    Raises:
        UserError: it can't be continued with the same results, and why.
    """
    settings, config = record.info.identity["settings"], plan.config
    refuse_other(config.flat(), {**settings, "max_epochs": record.info.max_epochs or config.max_epochs})
    more_epochs.check(plan, record)
    asked = settings["num_trials"]
    had = record.most_trials if status.enough(record) else asked  # a limit has ended the search before
    more_trials = plan.trials_in_all(record) > had or plan.new_tries(record)
    retry = retries.asked(plan, record, config.retried, "--retry")
    refuse(plan.faults_of_tries(record))
    ranged = range_changes.changes(plan, record)
    range_changes.refuse_prepared(ranged, "--ranges")
    is_raised = more_epochs.is_raised(config, record)
    has_more = more_trials or plan.confirmation != record.info.confirm or retry.kept_epochs or is_raised
    if ranged and not has_more and record.info.outcome is Outcome.FINISHED:
        has_more = not status.enough(record) and record.most_trials < asked  # it had no more points
        if not has_more:
            new = _new_ranges(plan, record)
            flag = "--freeze" if new.keys() <= config.freeze.keys() else "--ranges"
            typed = [f"{name}={shown_range(each)}" for name, each in new.items()]
            trials = str(2 * record.most_trials)
            more = resume_command(plan.folder, flag, *typed, "--num-trials", trials)
            raise UserError(
                f"{flag}: {config.name} is finished, so that no trial is to come in new ranges. For more "
                f"trials: {more}"
            )
    is_finished = record.info.outcome is Outcome.FINISHED and not has_more
    if is_finished and not retention.is_best_folder_lost(record, plan.storage):
        return ResumeState("\n".join([*retry.lines, _finished(plan, record)]), is_finished=True)
    _refuse_used_up(config, record)
    now, but = identity(plan), frozenset(SETTABLE)
    before = range_changes.as_asked(plan, record, ranged, now)
    changed = changes(before, now, but)
    if not any(trial.epochs and retry.kept_epochs.get(trial.number) != 0 for trial in record.trials):
        refused = changes(_as_proposed(before, now), now, but)
    else:
        refused = changed
    if refused and not config.force:
        listed = "\n".join(f"  {line}" for line in refused)
        raise UserError(
            f"--resume {shown_path(plan.folder)}: this changed since the sweep began, so trials before and "
            f"after are not comparable:\n{listed}\n"
            "Undo the changes, start a new sweep, or resume anyway with --force (the record will note it)."
        )
    return ResumeState(_unfinished(plan, record, ranged, changed, retry), is_finished=False)


def _refuse_lost_names(plan: Plan, record: Record, retried: Collection[int]) -> None:
    """Refuse a resume in which trials that train could only fail, whatever --force allows."""
    names = {model.name: {*hints_of(model.trainable.params_class)} for model in plan.models}
    every = set[str]().union(*names.values())
    again = [record.trials[number] for number in retried]
    lost = {
        name: trial.number
        for trial in (*record.live, *again)
        if trial.number in retried or not trial.epochs or decided_end(plan, record, trial) is None
        for name in {*trial.params, *trial.fixed} - names.get(trial.trainable, every)
    }
    if lost:
        listed = ", ".join(f"{name} (of trial {number})" for name, number in sorted(lost.items()))
        raise UserError(
            f"--resume {shown_path(plan.folder)}: trials to train have hyperparameters that Params has no "
            f"more: {listed}. Put them back, or learn from these trials in a new sweep: --refine "
            f"{shown_path(plan.folder)}"
        )


def _new_ranges(plan: Plan, record: Record) -> dict[str, Any]:
    """Those of --ranges that the record does not have."""
    before = record.info.identity["settings"].get("ranges", {})
    return {name: each for name, each in plan.config.ranges.items() if before.get(name) != each}


def _as_proposed(before: Identity, now: Identity) -> Identity:
    """What trials that have begun, and trained nothing, keep of an earlier run: their points. The repair of
    what they could not be trained with (the model, its data, a package) changes no result."""
    return {**before, "code": now["code"], "data": now["data"], "versions": now["versions"]}


def _refuse_used_up(config: SweepConfig, record: Record) -> None:
    used, budget = record.elapsed_s, config.time_budget_hours
    if budget is not None and used >= budget * 3600:
        raise UserError(
            f"--time-budget-hours {budget:g}: used up (the sweep ran {duration(used)}); raise it, "
            f"for example to {math.ceil(used / 3600 + budget):g}"
        )


def _finished(plan: Plan, record: Record) -> str:
    ended = len(record.searched)
    text = (
        f"{plan.config.name} is finished: {count(ended, 'trial')} ended. Folder: {shown_path(plan.folder)}."
    )
    if failed := sum(trial.status == "failed" for trial in record.searched):
        again = resume_command(plan.folder, "--retry", "failed")
        text += f"\nTo train {count(failed, 'trial')} that failed again: {again}"
    if record.best() is not None and not plan.config.confirm:
        confirm = resume_command(plan.folder, "--confirm", "3")
        text += f"\nTo confirm its best trials with new seeds: {confirm}"
    if not plan.points_left(record):
        return f"{text}\nIts search space has no more points."
    more = resume_command(plan.folder, "--num-trials", str(2 * ended))
    return f"{text}\nFor more trials: {more}"


def _unfinished(
    plan: Plan, known: Record, ranged: Sequence[Change], changed: Sequence[str], retry: Retry
) -> str:
    record, is_raised = known, more_epochs.is_raised(plan.config, known)
    if is_raised or known.info.raised:
        record = more_epochs.supposed(plan, known)
    _refuse_lost_names(plan, record, retry.kept_epochs)
    unfinished = [trial for trial in record.live if decided_end(plan, record, trial) is None]
    searched = sum(trial.confirms is None for trial in unfinished)
    ended = count(len(record.searched) - searched, "trial")
    tries = len(record.points_to_try()) + len(plan.new_tries(record))
    begun = len(record.searched)
    to_come = round(max(min(plan.trials_in_all(known) - begun, plan.points_left(record)), tries))
    again = f", {len(retry.kept_epochs)} of them to be trained again" if retry.kept_epochs else ""
    lines = [f"\nResuming {plan.config.name}: {ended} ended{again}, {searched} unfinished, {to_come} to come"]
    if plan.config.confirm:
        lines.append(f"  then {describe_confirmation(plan.config)}")
    if plan.saves:
        lines.append(f"  disk: {describe_disk(plan, record.checkpoint_bytes)}")
    if is_raised:
        lines += [f"  {line}" for line in more_epochs.lines(plan, known, record)]
    if known.cut_bytes:
        lines.append(f"  the last {known.cut_bytes:,} bytes of the record are incomplete and are removed")
    for trial in unfinished:
        rerun = "" if trial.confirms is None else f" (rerun of trial {trial.confirms})"
        lines.append(f"  trial {trial.number}{rerun} {where_it_continues(plan, record, trial)}")
    lines += [f"  {line}" for line in retry.lines]
    others = (trial for trial in record.searched if trial.number not in retry.kept_epochs)
    if failed := sum(trial.status == "failed" for trial in others):
        told = f"{count(failed, 'trial')} that failed {_is(failed)} not trained again"
        again = resume_command(plan.folder, "--retry", "failed")
        lines.append(f"  {told}. To train {'it' if failed == 1 else 'them'}, too: {again}")
    if record.info.paused_at is not None:
        again = control_command(plan.folder, "go")
        lines.append(f"  it is paused {moment(record.info.paused_at)}, until you type {again}")
    lines += [f"New range of {change}" for change in ranged]
    lines += [range_changes.effect(plan, record)] if ranged else []
    lines += [f"Changed since it began: {line}" for line in changed]
    return "\n".join(lines)


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def where_it_continues(plan: Plan, record: Record, trial: TrialRow) -> str:
    """Where a resume continues an unfinished trial, and what is trained again."""
    if plan.waits(record, trial):
        return f"waits at epoch {max(trial.epochs)} for other trials"
    if anew := more_epochs.where_it_begins(plan, record, trial):
        return anew
    reported, epoch = len(trial.epochs), plan.saved_epoch(trial)
    is_inside = trial.position not in ("", f"the end of epoch {reported}")
    if is_inside and epoch == reported:
        return f"continues at {trial.position}"
    begins = f"continues after epoch {epoch}" if epoch else "starts from its first epoch"
    again = reported - epoch
    return begins + (f" ({count(again, 'epoch')} {_is(again)} trained again)" if again else "")


def begin_run(plan: Plan, record: Record) -> None:
    """Write that a run begins, and put the trials of earlier runs in order."""
    now = identity(plan)
    ranged = range_changes.changes(plan, record)
    before = range_changes.as_asked(plan, record, ranged, now)
    changed = [*map(str, ranged), *changes(before, now)]
    changed_scores = score_changes(before, plan, more_epochs.SETTINGS)
    retry = retries.asked(plan, record, plan.config.retried, "--retry")
    # A kill may come behind each line: a finished sweep is none from the first on, and its settings are there
    # before the record goes by them, but more epochs, which a resume takes from the record.
    record.note("outcome", Outcome.RUNNING)
    if record.info.waits_since is not None:  # it was killed in the queue
        record.note("waits_since", None)
    more_epochs.note(plan, record)
    folder.write_settings(plan, plan.folder)
    trials, ranges = plan.trials_in_all(record), dict(plan.config.ranges)
    record.note_run(Run(time.time(), trials, changed, plan.config.force, changed_scores, ranges))
    if retry.kept_epochs:
        words, of_each = ["retry", *plan.config.retried], retries.noted(record, retry)
        record.note_steered(Steered(words, retry.text, time.time(), retried=of_each))
    retries.open_noted(plan, record)
    for point in plan.new_tries(record):
        words = ["try", *(f"{name}={shown(value)}" for name, value in point.params.items())]
        record.note_steered(Steered(words, "given by --try", time.time(), point=vars(point)))
    record.plan_chosen_points()
    if new := _new_ranges(plan, record):
        words = ["set", *(f"{name}={shown_range(each)}" for name, each in new.items())]
        record.note_steered(Steered(words, range_changes.effect(plan, record), time.time(), ranges=new))
    if changed:
        record.note("identity", now)
    if (sampled := models.sampled(plan.models)) != record.info.sampled_space:
        record.note("sampled_space", sampled)
    if (asked := plan.confirmation) != record.info.confirm:
        record.note("confirm", None if asked is None else dataclasses.asdict(asked))
    record.start_clock()
    settle(plan, record)


def settle(plan: Plan, record: Record) -> None:
    """Open the trials that have trained fewer epochs than there are now, end those whose end was decided but
    not written, and put the checkpoints in order."""
    more_epochs.open_trials(plan, record)
    for trial in record.live:
        if (ended := decided_end(plan, record, trial)) is not None:
            record.end(trial.number, **ended._asdict())
    for trial in record.live:
        if plan.waits(record, trial):  # a kill may have come before that was written
            record.note_pause(trial.number)
    _order_checkpoints(plan, record)


def prepared(plan: Plan, record: Record, trial: TrialRow) -> TrialRow | None:
    """A trial that begins to train now, with its epochs; None where one that was opened again ends: its turn
    has not come, and no process need tell that."""
    if trial.attempts and (ended := decided_end(plan, record, trial)) is not None:
        plan.end_trial(record, trial.number, ended)
        return None
    return more_epochs.prepared(plan, record, trial)


def decided_end(plan: Plan, record: Record, trial: TrialRow) -> Ending | None:
    """How a trial ends whose end was decided but not written; None when it continues.

    A trial that would lead always continues: its weights are needed too, so it restarts from its checkpoint
    and ends by itself.
    """
    config, last = plan.config, max(trial.epochs, default=0)
    is_stopped = record.is_to_stop(trial.number)
    stopped = Ending("stopped", record.why_stopped(trial.number))
    if not last:
        return stopped if is_stopped else plan.refusal(trial.point)
    row, objectives = trial.epochs[last], config.objectives
    others = {name: row.metrics.get(name, math.nan) for name in objectives.others}
    for name, value in {objectives.first.metric: row.score, **others}.items():
        if not math.isfinite(value):
            return Ending("diverged", why_diverged(name, last, value))
    is_kept = retention.would_be_kept(config, record, plan.storage, trial.number)
    before = trial.attempts[-1:]
    if before and before[0].status in ("finished", "stopped") and len(before[0].epochs) == last:
        is_kept = False  # it has the weights that it had
    if is_kept and plan.has_weights(trial.trainable):
        has_them = not plan.lacks_weights(record, trial.number)
        return stopped if is_stopped and has_them else None
    if last == config.max_epochs:
        return Ending("finished")
    if is_stopped:
        return stopped
    if trial.confirms is not None:
        return None
    return Ending("pruned") if plan.scheduler.ends_at(config, record, trial.number, last) else None


def _order_checkpoints(plan: Plan, record: Record) -> None:
    """Remove checkpoints that are not needed or not in the record. The record may be an older copy, after
    which other trials get these numbers."""
    storage = plan.storage
    storage.tidy()
    kept = retention.kept(plan.config, record, storage)
    trials = {trial.number: trial for trial in record.trials}
    for number in storage.numbers():
        trial = trials.get(number)
        if trial is None:
            print(f"trial_{number:04d} is not in the record: its checkpoints are removed", flush=True)
        if trial is None or (trial.status != "unfinished" and number not in kept):
            storage.remove(number)
            continue
        there = storage.epochs(number)
        known = [epoch for epoch in there if not epoch or epoch in trial.epochs]  # 0: inside its first epoch
        kept_epochs = known if trial.status == "unfinished" else known[:1]
        for epoch in there:
            if epoch not in kept_epochs:
                storage.remove(number, epoch)
