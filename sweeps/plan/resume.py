"""Resume a sweep whose driver is gone: what may have changed, what must not, and where each trial continues.

Searchers and schedulers keep nothing (they read the record), so a resume is a new Tune run over the
old record. What is left to do here: say what has changed since, end the trials whose end was decided
but not written, and put the checkpoints in order.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweeps.analysis import best_model
from sweeps.common import atomic_io
from sweeps.common.errors import UserError
from sweeps.common.formatting import command, count, duration, place
from sweeps.config.sweep_config import SweepConfig, flag, to_yaml
from sweeps.config.sweep_folder import CONFIG_FILE
from sweeps.config.yaml_files import refuse_other
from sweeps.plan import confirmation, models
from sweeps.plan.fingerprint import changes, identity
from sweeps.plan.plan import Plan
from sweeps.record.journal import RecordLost
from sweeps.record.record import Record
from sweeps.record.sweep_info import Run
from sweeps.record.trials import Status, TrialRow, why_diverged
from sweeps.storage import retention

RAISED = frozenset({"num_trials", "time_budget_hours"})
"""What may be raised."""


@dataclass(frozen=True)
class ResumeState:
    """What a resume finds of a sweep."""

    text: str
    is_finished: bool


def look(plan: Plan, record: Record) -> ResumeState:
    """What a resume finds of a sweep, in words.

    Raises:
        UserError: it can't go on exactly, and why.
    """
    _refuse_unknown_past(plan, record)
    before, config = record.info.settings, plan.config
    refuse_other(config.flat(), before)
    _refuse_less(config, before)
    if _is_finished(record, config) and not best_model.is_lost(record, plan.storage):
        return ResumeState(_finished(plan, record), is_finished=True)
    _refuse_used_up(config, record)
    changed = changes(record.info.identity, identity(plan), but=RAISED)
    if changed and not config.force:
        listed = "\n".join(f"  {line}" for line in changed)
        raise UserError(
            f"--resume {place(plan.folder)}: this changed since the sweep began, so that trials before and "
            f"after could not be compared:\n{listed}\n"
            "Undo the changes, start a new sweep, or resume anyway with --force (the record will note it)."
        )
    return ResumeState(_unfinished(plan, record, changed), is_finished=False)


def begin_run(plan: Plan, record: Record) -> None:
    """Write that a run begins; where it goes on with others, put their trials in order first."""
    now = identity(plan)
    changed = changes(record.info.identity, now)
    record.note_run(Run(time.time(), plan.config.num_trials, changed, plan.config.force))
    if changed:
        record.note("identity", now)
    if (sampled := models.sampled(plan.models)) != record.info.sampled_space:
        record.note("sampled_space", sampled)
    atomic_io.write(plan.folder / CONFIG_FILE, to_yaml(plan.config))
    record.note("outcome", "unfinished")
    if confirmation.is_other(plan.config, record):
        asked = confirmation.asked(plan.config)
        record.note("confirm", None if asked is None else dataclasses.asdict(asked))
    record.start_clock()
    _write_ends(plan, record)
    _order_checkpoints(plan, record)


def end_run(record: Record, outcome: str) -> None:
    """Write that a run ended, and how; where the record can't be written any more, nothing."""
    with contextlib.suppress(RecordLost):
        record.note("elapsed_s", record.elapsed_s)
        record.note("outcome", outcome)


def _refuse_unknown_past(plan: Plan, record: Record) -> None:
    if not record.info.has_identity:
        raise UserError(
            f"--resume {place(plan.folder)}: its record is of a version that could not resume yet; "
            f"repeat it: {command('run', '--config', str(plan.folder / CONFIG_FILE), '--name', 'NEW')}"
        )
    if not hasattr(plan.scheduler, "ends_at"):
        raise UserError(
            f"--resume {place(plan.folder)}: {plan.config.scheduler} defines no `ends_at`, so what it "
            "decided can't be rebuilt from the record"
        )


def _is_finished(record: Record, config: SweepConfig) -> bool:
    asked = record.info.settings["num_trials"]
    has_more = (config.num_trials or 0) > asked or confirmation.is_other(config, record)
    return record.info.outcome == "finished" and not has_more


def _refuse_less(config: SweepConfig, before: Mapping[str, Any]) -> None:
    for name in sorted(RAISED):
        old, new = before[name], getattr(config, name)
        if isinstance(old, int | float) and new is not None and new < old:
            raise UserError(f"{flag(name)} {new:g}: may only be raised; the sweep has {old}")


def _refuse_used_up(config: SweepConfig, record: Record) -> None:
    used, budget = record.elapsed_s, config.time_budget_hours
    if budget is not None and used >= budget * 3600:
        raise UserError(
            f"--time-budget-hours {budget:g}: used up (the sweep ran {duration(used)}); raise it, "
            f"for example to {math.ceil(used / 3600 + budget):g}"
        )


def _finished(plan: Plan, record: Record) -> str:
    ended = len(record.searched)
    text = f"{plan.config.name} is finished: {count(ended, 'trial')} ended. Folder: {place(plan.folder)}."
    if record.best() is not None and not plan.config.confirm:
        sure = ("--resume", place(plan.folder), "--confirm", "3")
        text += f"\nTo confirm its best trials with new seeds: {command('run', *sure)}"
    if ended >= plan.space.size():
        return f"{text}\nIts search space has no more points."
    more = ("--resume", place(plan.folder), "--num-trials", str(2 * ended))
    return f"{text}\nFor more trials: {command('run', *more)}"


def _unfinished(plan: Plan, record: Record, changed: list[str]) -> str:
    unfinished = [trial for trial in record.live if _how_it_ended(plan, record, trial) is None]
    searched = [trial for trial in unfinished if trial.confirms is None]
    ended = len(record.searched) - len(searched)
    wanted = min(plan.config.num_trials or 0, plan.space.size())
    to_come = max(0, round(wanted - len(record.searched)))
    lines = [
        f"\nResuming {plan.config.name}: {count(ended, 'trial')} ended, {len(searched)} unfinished, "
        f"{to_come} to come"
    ]
    if plan.config.confirm:
        lines.append(f"  then {confirmation.describe(plan.config)}")
    if record.cut_bytes:
        lines.append(f"  the last {record.cut_bytes:,} bytes of the record are incomplete and are removed")
    lines += [f"  {_called(trial)} {_goes_on(plan, record, trial)}" for trial in unfinished]
    lines += [f"Changed since it began: {line}" for line in changed]
    return "\n".join(lines)


def _called(trial: TrialRow) -> str:
    return f"trial {trial.number}" + ("" if trial.confirms is None else f" (rerun of trial {trial.confirms})")


def _goes_on(plan: Plan, record: Record, trial: TrialRow) -> str:
    if (waits := plan.waits(record)) is not None and waits(trial):
        return f"waits at epoch {max(trial.epochs)} for other trials"
    params, reported = {**trial.fixed, **trial.params}, len(trial.epochs)
    newest, faults = plan.storage.look(trial.number, params, reported)
    epoch = newest or 0
    again = len(trial.epochs) - epoch
    notes = [f"{count(again, 'epoch')} again"] if again else []
    start = f"continues after epoch {epoch}" if epoch else "starts from its first epoch"
    return start + (f" ({'; '.join([*notes, *faults])})" if notes or faults else "")


def _how_it_ended(plan: Plan, record: Record, trial: TrialRow) -> tuple[Status, str] | None:
    """How a trial ended whose end was not written any more; None when it goes on.

    One that would lead goes on in any case: its weights are needed too, so it begins once more from its
    checkpoint, and ends by itself.
    """
    config, last = plan.config, max(trial.epochs, default=0)
    if not last:
        return None
    if not math.isfinite(score := trial.epochs[last].score):
        return "diverged", why_diverged(config.objective.metric, last, score)
    if retention.would_be_kept(config, record, plan.storage, trial.number):
        return None
    if last == config.max_epochs:
        return "finished", ""
    if trial.confirms is not None:
        return None
    return ("pruned", "") if plan.scheduler.ends_at(config, record, trial.number, last) else None


def _write_ends(plan: Plan, record: Record) -> None:
    """Write the ends that the driver knew and did not come to write."""
    for trial in record.live:
        if (ended := _how_it_ended(plan, record, trial)) is not None:
            record.end(trial.number, *ended)


def _order_checkpoints(plan: Plan, record: Record) -> None:
    """Remove those that nobody needs, and what the record does not know: it is an older copy, then, and
    what will be tried under these numbers is something else."""
    storage = plan.storage
    storage.tidy()
    staying = retention.kept(plan.config, record, storage)
    known = {trial.number: trial for trial in record.trials}
    for number in storage.numbers():
        trial = known.get(number)
        if trial is None:
            print(f"trial_{number:04d} is not in the record: its checkpoints are removed", flush=True)
        if trial is None or (trial.status != "unfinished" and number not in staying):
            storage.remove(number)
            continue
        for epoch in storage.epochs(number):
            if epoch not in trial.epochs:
                storage.remove(number, epoch)
