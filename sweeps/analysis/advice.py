"""What to do after a sweep, as commands, and the ranges that the next one may take.

from sweeps import results
from sweeps.analysis import advice
for step in advice.advise(results.load("results/NAME")).steps:
    print(step.text, step.command)
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sweeps.analysis.compared_trials import FEW, ComparedTrials, compared_trials, trainables
from sweeps.analysis.failure_regions import by_cause, dead_regions_of
from sweeps.analysis.new_ranges import Change, changes
from sweeps.analysis.pruning import later_first_rung
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import command, count, short, shown_path
from sweeps.config.next_commands import repeat_command, resume_command
from sweeps.config.sweep_folder import BEST_FOLDER, PARAMS_FILE
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.trials import ENDED_WELL


class Step(NamedTuple):
    """Something to do next."""

    text: str
    command: str


@dataclass(frozen=True)
class Advice:
    """What to do next, and why."""

    steps: tuple[Step, ...]
    """At most three, the first one first."""
    changes: tuple[Change, ...]
    """The ranges that the next sweep may take."""
    basis: tuple[str, ...]
    """What that is based on, in sentences."""


def advise(sweep: Sweep) -> Advice:
    """What to do after a sweep, however few of its trials ended."""
    record, several = sweep.record, sweep.record.objectives.are_several
    again = _command(record)
    may_change = "--refine" in again or (several and not status.is_running(record))
    return Advice(
        steps=tuple(_steps(record, again)),
        changes=tuple(changes(record)) if may_change else (),
        basis=tuple(_basis(record, again)),
    )


def _steps(record: Record, again: str) -> Iterator[Step]:
    """To repair what fails, then to go on; where nothing else is to do, to use the best trial."""
    failed = [trial for trial in record.searched if trial.status == "failed"]
    if failed:
        alike = max(by_cause(failed).values(), key=len)
        most = ", most often" if len(alike) < len(failed) else ""
        log = next((trial.log for trial in alike if trial.log), None)
        yield Step(
            f"Repair what {len(failed):,} of {count(len(record.searched), 'trial')} failed with{most}: "
            f"{alike[0].reason or 'no reason was recorded'}.",
            shlex.join(["cat", shown_path(record.folder.resolve() / log)]) if log else "",
        )
    folder, best = record.folder.resolve(), record.best()
    if status.is_running(record):
        return
    if status.can_go_on(record):
        as_it_was = " with the code as it was" if failed else ""
        how = f"{status.status(record)}{status.how_far(record)}"
        yield Step(f"Resume the sweep{as_it_was}: it is {how}.", again)
    elif "--refine" in again:
        is_later = "--grace-epochs" in again
        later = ", and prune later: ranks at the first rung hardly predict later ones" if is_later else ""
        yield Step(f"Search again, in the ranges below{later}.", again)
    elif again and failed:  # a resume refuses other code
        yield Step("Begin a new sweep with the repaired code.", repeat_command(folder, record.name))
    elif again:
        yield Step(f"Add trials: to judge ranges, {FEW} with different scores are needed.", again)
    elif best is not None and best.status != "unfinished" and not record.objectives.are_several:
        params = shown_path(folder / BEST_FOLDER / PARAMS_FILE)
        fit = command("fit", best.trainable, "--params", params)
        yield Step(f"Use the weights of trial {best.number} in {BEST_FOLDER}/, or train it again.", fit)


def _command(record: Record) -> str:
    """To resume the sweep, where it was stopped; else to refine it, where that changes a range; else to add
    trials, where a judgement needs more of them. "" of one that runs."""
    if status.can_go_on(record):
        return resume_command(record.folder, *status.flags_of_resume(record))
    ended_well = any(trial.status in ENDED_WELL for trial in record.searched)
    if status.is_running(record) or not ended_well or record.objectives.are_several:
        return ""  # --refine takes one objective
    folder = shown_path(record.folder.resolve())
    parts = [compared_trials(record, name) for name in trainables(record)]
    if any(part.can_judge_ranges for part in parts) or dead_regions_of(record):
        rung = later_first_rung(record)
        return command("run", "--refine", folder, *([] if rung is None else ["--grace-epochs", str(rung)]))
    is_grid = record.info.settings.searcher == "grid"
    if is_grid or not any(0 < len(part.order) < FEW for part in parts):
        return ""
    return resume_command(record.folder, "--num-trials", str(max(FEW, 2 * len(record.searched))))


def _basis(record: Record, again: str) -> Iterator[str]:
    seen = compared_trials(record)
    if not seen.trials:
        yield "No trial was started: there is nothing to learn from."
        return
    first = f" Ranges are judged by {record.info.metric}, the first objective, alone."
    yield _on_comparison(record, seen) + (first if record.objectives.are_several else "")
    if "--refine" in again:
        for file in dict.fromkeys(status.function_of(record, name) for name in trainables(record)):
            if file:
                yield (
                    f"{file} is a function suggest(trial), whose ranges --refine does not change. Edit them "
                    "there first; --refine then gives the searcher those of the trials so far that fit."
                )


def _on_comparison(record: Record, seen: ComparedTrials) -> str:
    """At which epoch trials are compared, or why they are not."""
    scored, metric = len(seen.order), record.info.metric
    if not scored and not seen.bad:
        return f"{count(len(seen.trials), 'trial')} started; none has a score."
    if not scored:
        reason, times = Counter(trial.reason for trial in seen.bad).most_common(1)[0]
        bad = f"{len(seen.bad)} of {len(seen.trials)} failed, diverged or were infeasible"
        return (
            f"No trial ended well: {bad}. The most common reason is: {reason or 'none was recorded'} "
            f"({count(times, 'time')}). Fix that before another sweep."
        )
    if scored == 1:
        return f"Only one trial has a score. To judge ranges, {FEW} trials are needed."
    if seen.is_constant:
        score = short(record.scores_at(seen.epoch)[seen.order[0].number])
        return (
            f"{metric} is {score} in all {scored} trials that reached epoch {seen.epoch}: no range can be "
            "judged. Use another --metric, or tune other hyperparameters."
        )
    if scored < FEW:
        few = f"Only {scored} trials have a score at epoch {seen.epoch}"
        return f"{few}. To judge ranges, {FEW} trials are needed."
    return (
        f"Trials are compared at epoch {seen.epoch}, which {scored} of {count(len(seen.trials), 'trial')} "
        f"reached. The best {len(seen.best())} of these count as the best trials."
    )
