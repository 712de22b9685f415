"""Trials that did not end well, and are trained again: `--retry`, and `sweeps control NAME retry`.

The command is one line of the record, with all that it opens: after a kill amid it the resume opens the rest.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeps.common.errors import refuse
from sweeps.common.formatting import count, listed, rough
from sweeps.config import control_commands
from sweeps.config.control_commands import RETRIED
from sweeps.plan import more_epochs
from sweeps.plan.fingerprint import score_changes
from sweeps.plan.plan import Plan
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow

MOST_LISTED = 12
"""Trials that are listed, each in a line."""


@dataclass(frozen=True)
class Retry:
    """Trials that are to be trained again."""

    kept_epochs: Mapping[int, int]
    """The number of each, and after which epoch it goes on; 0: it starts anew."""
    lines: Sequence[str]
    """What will happen, and what it costs."""

    @property
    def text(self) -> str:
        return " ".join(self.lines)


NO_RETRY = Retry({}, ())


def asked(plan: Plan, record: Record, words: Sequence[str], where: str) -> Retry:
    """The trials that are to be trained again.

    Args:
        words: numbers and statuses, as they were typed.
        where: begins a message: the flag, or the command.

    Raises:
        UserError: some can't be trained again, and why; every fault, one a line.
    """
    if not words:
        return NO_RETRY
    found, faults, notes = dict[int, TrialRow](), list[str](), list[str]()
    for each in control_commands.retried(where, words):
        if isinstance(each, int):
            if fault := _fault(plan, record, each):
                faults.append(f"{where} {each}: {fault}")
            else:
                found[each] = record.trials[each]
            continue
        of_status = [trial for trial in record.searched if trial.status == each]
        trained = [trial for trial in of_status if plan.refusal(trial.point) is None]
        if missed := len(of_status) - len(trained):
            notes.append(
                f"{count(missed, f'{each} trial')} left out: a constraint is missed without training."
            )
        elif not of_status:
            notes.append(f"No trial {'is' if each == 'infeasible' else 'has'} {each}.")
        found |= {trial.number: trial for trial in trained}
    refuse(faults)
    changed = score_changes(record.info.identity, plan, more_epochs.SETTINGS)
    in_order = (trial for _, trial in sorted(found.items()))
    kept = {trial.number: _kept_epochs(plan, record, trial, bool(changed)) for trial in in_order}
    return Retry(kept, [*notes, *(_lines(plan, record, kept, changed) if kept else ())])


def noted(record: Record, retry: Retry) -> dict[str, tuple[int, int]]:
    """What the command holds of its trials in the record: `Steered.retried`."""
    return {str(n): (record.trials[n].attempt, kept) for n, kept in retry.kept_epochs.items()}


def open_noted(plan: Plan, record: Record) -> None:
    """Open the trials of all commands that are not open yet.

    Raises:
        StorageError: checkpoints that do not count any more can't be removed.
    """
    for command in record.info.steered:
        for number, (attempt, kept) in command.retried.items():
            trial = record.trials[int(number)]
            if trial.status in RETRIED and trial.attempt == attempt:
                if not kept:
                    plan.storage.remove(trial.number)
                for epoch in plan.storage.epochs(trial.number):
                    if epoch > kept:
                        plan.storage.remove(trial.number, epoch)
                decided = plan.scheduler.for_record(plan.config, record).decided_rungs(trial.number)
                why = f"retried by the user: it was {trial.status}"
                record.open_again(trial.number, kept, why, decided_rungs=decided)


def _fault(plan: Plan, record: Record, number: int) -> str:
    """Why a trial can't be trained again; "" where it can."""
    there = [trial.number for trial in record.searched if trial.status in RETRIED]
    choices = f"Trials that can be trained again: {listed(there)}"
    if number >= len(record.trials):
        return f"{status.no_such_trial(record)}. {choices}"
    trial = record.trials[number]
    if trial.confirms is not None:
        return (
            f"it reruns trial {trial.confirms} with a new seed; only trials of the search are trained again. "
            f"{choices}"
        )
    if trial.status == "unfinished":
        return f"it has not ended: it trains, or waits to. {choices}"
    if trial.status not in RETRIED:
        return (
            f"it is {trial.status} after {count(len(trial.epochs), 'epoch')}; only trials that failed, "
            f"diverged or are infeasible are trained again. {choices}"
        )
    if (refused := plan.refusal(trial.point)) is not None:
        return f"it would not be trained: {refused.reason}"
    return ""


def _kept_epochs(plan: Plan, record: Record, trial: TrialRow, has_changed: bool) -> int:
    """After which epoch a trial goes on: that of its newest checkpoint; 0 where it has none, and where its
    weights are at fault or were trained with other code."""
    if trial.status != "failed" or not trial.epochs or has_changed:
        return 0
    last = trial.epochs[max(trial.epochs)]
    is_same_code = record.info.code_at(last.time) == record.info.code_at(time.time())
    return plan.saved_epoch(trial) if is_same_code else 0


def _lines(plan: Plan, record: Record, kept: Mapping[int, int], changed: Sequence[str]) -> list[str]:
    lines = [_begins(record.trials[number], after) for number, after in [*kept.items()][:MOST_LISTED]]
    if (more := len(kept) - MOST_LISTED) > 0:
        lines.append(f"And {count(more, 'more trial')}.")
    most = plan.config.max_epochs
    epochs = sum(most - after for after in kept.values())
    again = sum(len(record.trials[number].epochs) - after for number, after in kept.items())
    seconds = [trial.epochs[len(trial.epochs)].seconds for trial in record.trials if trial.epochs]
    takes = f", about {rough(statistics.fmean(seconds) * epochs)} of training" if seconds else ""
    repeated = f", {again:,} of them for the second time" if again else ""
    lines.append(f"At most {count(epochs, 'epoch')}{takes}{repeated}; no more disk space than planned.")
    if others := _others(record, kept, changed):
        lines.append(others)
    return lines


def _begins(trial: TrialRow, after: int) -> str:
    """`Trial 7 (failed: ...) goes on after epoch 9.`"""
    reported = len(trial.epochs)
    begins = f"goes on after epoch {after}" if after else "starts from its first epoch"
    again = f", {count(reported - after, 'epoch')} once more" if reported > after else ""
    reason = trial.reason if len(trial.reason) <= 80 else f"{trial.reason[:77]}..."
    why = f"{trial.status}: {reason}" if reason else trial.status
    return f"Trial {trial.number} ({why}) {begins}{again}."


def _others(record: Record, kept: Mapping[int, int], changed: Sequence[str]) -> str:
    """Words where others have been trained with other code; else ""."""
    now = record.info.code_at(time.time())
    codes = {number: record.codes_of(number) for number in range(len(record.trials)) if number not in kept}
    other = [number for number, found in codes.items() if found and (changed or found != [now])]
    if not other:
        return ""
    what = changed or [line for run in record.info.runs for line in run.changed_scores]
    shown = f"{'; '.join(what[:3])}{'; ...' if len(what) > 3 else ''}"
    return (
        f"This mixes trials: {count(len(other), 'trial')} had other code or data ({shown}). Scores of both "
        "are compared; the column `code` of the tables tells them apart."
    )
