"""The start of a run of a sweep: what has changed since an earlier run, and where each trial continues.

Searchers and schedulers read the record, so a resume is a new run of Tune over the old record.
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass

from sweeps.common import atomic_io
from sweeps.common.errors import UserError
from sweeps.common.formatting import count, duration, moment, shown_path
from sweeps.common.param_types import shown
from sweeps.config.control_commands import SETTABLE
from sweeps.config.sweep_config import SweepConfig, to_yaml
from sweeps.config.sweep_folder import SWEEP_FILE, control_command, repeat_command, resume_command
from sweeps.config.validation import refuse_other
from sweeps.plan import models
from sweeps.plan.describe import describe_confirmation, describe_disk
from sweeps.plan.fingerprint import changes, identity
from sweeps.plan.plan import Plan
from sweeps.record.record import Record
from sweeps.record.sweep_info import Identity, Outcome, Run, Steered
from sweeps.record.trials import STOPPED, Ending, TrialRow, why_diverged
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
    before, config = record.info.identity["settings"], plan.config
    refuse_other(config.flat(), before)
    more_trials = (config.num_trials or 0) > before["num_trials"] or plan.new_tries(record)
    has_more = more_trials or plan.confirmation != record.info.confirm
    is_finished = record.info.outcome is Outcome.FINISHED and not has_more
    if is_finished and not retention.is_best_folder_lost(record, plan.storage):
        return ResumeState(_finished(plan, record), is_finished=True)
    _refuse_used_up(config, record)
    now, but = identity(plan), frozenset(SETTABLE)
    changed = changes(record.info.identity, now, but)
    refused = changed if record.has_epochs else changes(_as_proposed(record.info.identity, now), now, but)
    if refused and not config.force:
        listed = "\n".join(f"  {line}" for line in refused)
        raise UserError(
            f"--resume {shown_path(plan.folder)}: this changed since the sweep began, so trials before and "
            f"after are not comparable:\n{listed}\n"
            "Undo the changes, start a new sweep, or resume anyway with --force (the record will note it)."
        )
    return ResumeState(_unfinished(plan, record, changed), is_finished=False)


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
    if record.best() is not None and not plan.config.confirm:
        confirm = resume_command(plan.folder, "--confirm", "3")
        text += f"\nTo confirm its best trials with new seeds: {confirm}"
    if ended >= plan.space.size():
        return f"{text}\nIts search space has no more points."
    more = resume_command(plan.folder, "--num-trials", str(2 * ended))
    return f"{text}\nFor more trials: {more}"


def _unfinished(plan: Plan, record: Record, changed: list[str]) -> str:
    unfinished = [trial for trial in record.live if decided_end(plan, record, trial) is None]
    searched = sum(trial.confirms is None for trial in unfinished)
    ended = count(len(record.searched) - searched, "trial")
    tries = len(record.points_to_try()) + len(plan.new_tries(record))
    wanted = max(min(plan.config.num_trials or 0, plan.space.size()), len(record.searched) + tries)
    to_come = round(wanted - len(record.searched))
    lines = [f"\nResuming {plan.config.name}: {ended} ended, {searched} unfinished, {to_come} to come"]
    if plan.config.confirm:
        lines.append(f"  then {describe_confirmation(plan.config)}")
    lines.append(f"  disk: {describe_disk(plan, record.checkpoint_bytes)}")
    if record.cut_bytes:
        lines.append(f"  the last {record.cut_bytes:,} bytes of the record are incomplete and are removed")
    for trial in unfinished:
        rerun = "" if trial.confirms is None else f" (rerun of trial {trial.confirms})"
        lines.append(f"  trial {trial.number}{rerun} {where_it_continues(plan, record, trial)}")
    if failed := record.failed_untrained:
        told = f"{count(failed, 'trial')} that failed {_is(failed)} not trained again"
        lines.append(
            f"  {told}. To train all, begin a new sweep: {repeat_command(plan.folder, str(plan.config.name))}"
        )
    if record.info.paused_at is not None:
        again = control_command(plan.folder, "go")
        lines.append(f"  it is paused {moment(record.info.paused_at)}, until you type {again}")
    lines += [f"Changed since it began: {line}" for line in changed]
    return "\n".join(lines)


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def where_it_continues(plan: Plan, record: Record, trial: TrialRow) -> str:
    """Where a resume continues an unfinished trial, and what is trained again."""
    if plan.waits(record, trial):
        return f"waits at epoch {max(trial.epochs)} for other trials"
    reported = len(trial.epochs)
    epoch = max((epoch for epoch in plan.storage.epochs(trial.number) if epoch <= reported), default=0)
    is_inside = trial.position not in ("", f"the end of epoch {reported}")
    if is_inside and epoch == reported:
        return f"continues at {trial.position}"
    begins = f"continues after epoch {epoch}" if epoch else "starts from its first epoch"
    again = reported - epoch
    return begins + (f" ({count(again, 'epoch')} {_is(again)} trained again)" if again else "")


def begin_run(plan: Plan, record: Record) -> None:
    """Write that a run begins, and put the trials of earlier runs in order."""
    now = identity(plan)
    changed = changes(record.info.identity, now)
    record.note_run(Run(time.time(), plan.config.num_trials, changed, plan.config.force))
    for point in plan.new_tries(record):
        words = ["try", *(f"{name}={shown(value)}" for name, value in point.params.items())]
        record.note_steered(Steered(words, "given by --try", time.time(), point=vars(point)))
    record.plan_chosen_points()
    if changed:
        record.note("identity", now)
    if (sampled := models.sampled(plan.models)) != record.info.sampled_space:
        record.note("sampled_space", sampled)
    atomic_io.write(plan.folder / SWEEP_FILE, to_yaml(plan.config))
    record.note("outcome", Outcome.RUNNING)
    if (asked := plan.confirmation) != record.info.confirm:
        record.note("confirm", None if asked is None else dataclasses.asdict(asked))
    record.start_clock()
    settle(plan, record)


def settle(plan: Plan, record: Record) -> None:
    """End the trials whose end was decided but not written, and put the checkpoints in order."""
    for trial in record.live:
        if (ended := decided_end(plan, record, trial)) is not None:
            record.end(trial.number, **ended._asdict())
    for trial in record.live:
        if plan.waits(record, trial):  # a kill may have come before that was written
            record.note_pause(trial.number)
    _order_checkpoints(plan, record)


def decided_end(plan: Plan, record: Record, trial: TrialRow) -> Ending | None:
    """How a trial ends whose end was decided but not written; None when it continues.

    A trial that would lead always continues: its weights are needed too, so it restarts from its checkpoint
    and ends by itself.
    """
    config, last = plan.config, max(trial.epochs, default=0)
    is_stopped = record.is_to_stop(trial.number)
    if not last:
        return Ending("stopped", STOPPED) if is_stopped else plan.refusal(trial.point)
    row, objectives = trial.epochs[last], config.objectives
    others = {name: row.metrics.get(name, math.nan) for name in objectives.others}
    for name, value in {objectives.first.metric: row.score, **others}.items():
        if not math.isfinite(value):
            return Ending("diverged", why_diverged(name, last, value))
    is_kept = retention.would_be_kept(config, record, plan.storage, trial.number)
    if is_kept and plan.has_weights(trial.trainable):
        has_them = not plan.lacks_weights(record, trial.number)
        return Ending("stopped", STOPPED) if is_stopped and has_them else None
    if last == config.max_epochs:
        return Ending("finished")
    if is_stopped:
        return Ending("stopped", STOPPED)
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
