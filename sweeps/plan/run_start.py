"""Begin a run of a sweep: write it to the record, and put the trials of earlier runs in order."""

from __future__ import annotations

import dataclasses
import math
import time

from sweeps.common import atomic_io
from sweeps.common.param_types import shown
from sweeps.config.sweep_config import to_yaml
from sweeps.config.sweep_folder import SWEEP_FILE
from sweeps.plan import models
from sweeps.plan.fingerprint import changes, identity
from sweeps.plan.plan import Plan
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome, Run, Steered
from sweeps.record.trials import STOPPED, Ending, TrialRow, why_diverged
from sweeps.storage import retention


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
    if retention.would_be_kept(config, record, plan.storage, trial.number):
        has_weights = not retention.lacks_weights(config, record, plan.storage, trial.number)
        return Ending("stopped", STOPPED) if is_stopped and has_weights else None
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
