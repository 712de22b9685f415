"""What to do after a sweep, as commands, and the ranges that the next one may take.

from sweeps import results
from sweeps.analysis import advice
for step in advice.advise(results.load("results/NAME")).steps:
    print(step.text, step.command)
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sweeps.analysis.compared_trials import FEW, ComparedTrials, compared_trials, trainables
from sweeps.analysis.course import causes_of
from sweeps.analysis.new_ranges import Change, changes
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import command, count, short, shown_path
from sweeps.config.sweep_folder import BEST_FOLDER, PARAMS_FILE, resume_command
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.trials import BAD, ENDED_WELL


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
    record = sweep.record
    refine = _refine(record)
    suggests = record.objectives.are_several and not status.is_running(record)
    return Advice(
        steps=tuple(_steps(record, refine)),
        changes=tuple(changes(record)) if refine or suggests else (),
        basis=tuple(_basis(record, is_refined=refine is not None)),
    )


def _steps(record: Record, refine: Step | None) -> Iterator[Step]:
    """To repair what fails, then to go on; where nothing else is to do, to use the best trial."""
    failed = [trial for trial in record.searched if trial.status == "failed"]
    folder, best = record.folder.resolve(), record.best()
    # Some trials diverge, or are infeasible, by their hyperparameters; where all ended so, it is a mistake.
    is_all = best is None and not record.live
    bad = [trial for trial in record.searched if trial.status in BAD] if is_all else failed
    alike = next((cause.trials for cause in causes_of(bad)), ())
    log = next((trial.log for trial in alike if trial.log), None)
    if log or (alike and is_all):
        most = ", most often" if len(alike) < len(bad) else ""
        yield Step(
            f"Repair what {len(bad):,} of {count(len(record.searched), 'trial')} "
            f"{'failed' if bad == failed else 'ended'} with{most}: "
            f"{alike[0].reason or 'no reason was recorded'}.",
            shlex.join(["cat", shown_path(folder / log)])
            if log
            else command("results", shown_path(folder), "--csv", "-"),
        )
    if status.is_running(record):
        return
    if status.can_go_on(record):
        as_it_was = " with the code as it was" if failed else ""
        how = f"{status.status(record)}{status.how_far(record)}"
        yield Step(
            f"Resume the sweep{as_it_was}: it is {how}.",
            resume_command(record.folder, *status.flags_of_resume(record)),
        )
    elif refine is not None:
        yield refine
    elif _needs_trials(record) and (retry := status.retry_command(record)):
        # A resume refuses other code where it has scores of this one.
        accepts, force = ("; --force accepts the change", " --force") if record.has_epochs else ("", "")
        yield Step(f"Train what failed again with the repaired code{accepts}.", f"{retry}{force}")
    elif _needs_trials(record):
        more = ("--num-trials", str(max(FEW, 2 * len(record.searched))))
        text = f"Add trials: to judge ranges, {FEW} with different scores are needed."
        yield Step(text, resume_command(record.folder, *more))
    elif best is not None and best.status != "unfinished" and not record.objectives.are_several:
        params = shown_path(folder / BEST_FOLDER / PARAMS_FILE)
        again = command("fit", best.trainable, "--params", params)
        yield Step(f"Use the weights of trial {best.number} in {BEST_FOLDER}/, or train it again.", again)


def _refine(record: Record) -> Step | None:
    """To search again, where that changes a range; --refine takes a sweep of one objective that has ended."""
    ended_well = any(trial.status in ENDED_WELL for trial in record.searched)
    is_open = status.is_running(record) or status.can_go_on(record)
    if is_open or not ended_well or record.objectives.are_several:
        return None
    parts = [compared_trials(record, name) for name in trainables(record)]
    if not any(part.can_judge_ranges for part in parts):
        return None
    folder = shown_path(record.folder.resolve())
    return Step("Search again, where the best trials lie.", command("run", "--refine", folder))


def _needs_trials(record: Record) -> bool:
    """Whether a judgement needs more trials than there are, and this version can add some; a grid has no
    more, and several objectives have no judgement."""
    is_whole = record.objectives.are_several or record.info.settings.searcher == "grid"
    if is_whole or not record.info.is_of_this_version:
        return False
    parts = (compared_trials(record, name) for name in trainables(record))
    return any(0 < len(part.order) < FEW for part in parts)


def _basis(record: Record, is_refined: bool) -> Iterator[str]:
    seen = compared_trials(record)
    if not seen.trials:
        yield "No trial was started: there is nothing to learn from."
        return
    first = f" Ranges are judged by {record.objective.metric}, the first objective, alone."
    yield _on_comparison(record, seen) + (first if record.objectives.are_several else "")
    if is_refined:
        for file in dict.fromkeys(status.function_of(record, name) for name in trainables(record)):
            if file:
                yield (
                    f"{file} is a function suggest(trial), whose ranges --refine does not change. Edit them "
                    "there first; --refine then gives the searcher those of the trials so far that fit."
                )


def _on_comparison(record: Record, seen: ComparedTrials) -> str:
    """At which epoch trials are compared, or why they are not."""
    scored, metric = len(seen.order), record.objective.metric
    if not scored and seen.bad:
        most = causes_of(seen.bad)[0]
        bad = f"{len(seen.bad)} of {len(seen.trials)} failed, diverged or were infeasible"
        return (
            f"No trial ended well: {bad}. The most common reason is: {most.reason or 'none was recorded'} "
            f"({count(len(most.trials), 'time')}). Fix that before another sweep."
        )
    if not scored:
        return f"{count(len(seen.trials), 'trial')} started; none has a score."
    if scored > 1 and seen.is_constant:
        score = short(record.scores_at(seen.epoch)[seen.order[0].number])
        return (
            f"{metric} is {score} in all {scored} trials that reached epoch {seen.epoch}: no range can be "
            "judged. Use another --metric, or tune other hyperparameters."
        )
    if scored < FEW:
        return f"{count(scored, 'trial')} with a score at epoch {seen.epoch}: too few to judge ranges."
    return (
        f"Trials are compared at epoch {seen.epoch}, which {scored} of {count(len(seen.trials), 'trial')} "
        f"reached. The best {len(seen.best())} of these count as the best trials."
    )
