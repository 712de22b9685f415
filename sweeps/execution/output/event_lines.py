"""What `sweeps run --json` prints while a sweep runs: a line for its plan, and one for each event of a trial,
as the record holds it.
"""

from __future__ import annotations

from typing import Any

from sweeps.common.cli import json_output
from sweeps.common.objective import Losses
from sweeps.config.sweep_folder import resume_command
from sweeps.plan.fingerprint import data_and_space
from sweeps.plan.plan import Plan
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.trials import TrialEvent, TrialRow

BEGUN = ("trainable", "params", "fixed", "seed", "origin", "confirms", "attempt", "opened_for")
"""Fields of a trial that begins."""


def write_plan(plan: Plan) -> None:
    """Write what will be done."""
    if not json_output.is_on():
        return
    config = plan.config
    json_output.answer(name=config.name, folder=str(plan.folder))
    json_output.write(
        "plan",
        name=config.name,
        folder=str(plan.folder),
        trainables=config.trainables,
        objectives=[f"{each.metric}:{each.mode}" for each in config.objectives.every],
        searcher=config.searcher,
        scheduler=config.scheduler,
        num_trials=config.num_trials,
        max_epochs=config.max_epochs,
        space=data_and_space(plan)["space"],
        settings=config.flat(),
        is_dry_run=config.dry_run,
    )


def follow(record: Record) -> None:
    """Write a line for each event of a trial from now on."""
    if not json_output.is_on():
        return
    json_output.answer(resume=resume_command(record.folder, *status.flags_of_resume(record)))
    new_best = NewBest(record)

    def write(event: TrialEvent, trial: TrialRow) -> None:
        match event:
            case "begun":
                begun = {name: getattr(trial, name) for name in BEGUN}
                json_output.write("trial_begun", id=trial.number, **begun)
            case "report":
                epoch = max(trial.epochs)
                json_output.write("report", id=trial.number, epoch=epoch, **vars(trial.epochs[epoch]))
            case "paused" | "continued":
                json_output.write(f"trial_{event}", id=trial.number, after_epoch=len(trial.epochs))
            case "notice":
                json_output.write("notice", id=trial.number, text=trial.notices[-1])
            case "ended":
                json_output.write(
                    "trial_ended",
                    id=trial.number,
                    status=trial.status,
                    reason=trial.reason,
                    log=trial.log,
                    epochs=len(trial.epochs),
                    best_epoch=trial.best_epoch(record.objective),
                    best_score=trial.best_score(record.objective),
                    seconds=trial.seconds,
                )
        if event in ("report", "ended") and new_best.is_found():
            json_output.write("best", **(best_of(record) or {}))

    record.listeners.append(write)


def best_of(record: Record) -> dict[str, Any] | None:
    """The best trial, with the value of each objective; None where no trial has a score."""
    if (best := record.best()) is None:
        return None
    confirmed = record.confirmed_with_score().get(best.number)
    return {
        "id": best.number,
        "status": best.status,
        "epoch": best.best_epoch(record.objective),
        "values": _values(record, best.values(record.objectives)),
        "confirmed_values": None if confirmed is None else _values(record, confirmed.means),
        "params": {**best.fixed, **best.params},
    }


def _values(record: Record, values: Any) -> dict[str, float]:
    return dict(zip(record.objectives.metrics, values or (), strict=False))


class NewBest:
    """What is better than all that was told, and than the best trial of the record as it is now.

    A leader that diverges or begins anew leaves a worse one in its place, which is no news. With several
    objectives there is no order, and another knee of the front is news.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._told = self._best()

    def is_found(self) -> bool:
        """Whether there is one, which counts as told."""
        best = self._best()
        if best is None or best == self._told:
            return False
        are_several = self._record.objectives.are_several
        if self._told is not None and not are_several and best[1] >= self._told[1]:
            return False
        self._told = best
        return True

    def _best(self) -> tuple[int, Losses] | None:
        best = self._record.best()
        losses = None if best is None else best.losses(self._record.objectives)
        return None if best is None or losses is None else (best.number, losses)
