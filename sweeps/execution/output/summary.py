"""The last lines of a sweep, and its exit status."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from sweeps.analysis.course import causes_of
from sweeps.analysis.sweep import Sweep
from sweeps.common import local_dirs
from sweeps.common.cli import json_output
from sweeps.common.cli.terminal import say, step
from sweeps.common.errors import UserError
from sweeps.common.formatting import command, count, pairs, short, shown_path
from sweeps.config.sweep_folder import BEST_FOLDER, REPORT_FILE, repeat_command, resume_command
from sweeps.execution.output import event_lines, winner
from sweeps.execution.run_context import RunContext
from sweeps.kinds.params_file import files_of_weights
from sweeps.plan import run_start
from sweeps.plan.plan import Plan
from sweeps.record import constraints, limits, status
from sweeps.record.record import Record
from sweeps.record.reruns import Confirmed
from sweeps.record.sweep_info import Outcome
from sweeps.record.trials import BAD, TrialRow
from sweeps.storage import retention
from sweeps.storage.protocol import StorageError

MOST_LISTED = 12
"""Unfinished trials, and trials of a front."""
Line = tuple[str, str]
"""A title and a text."""


def print_result(context: RunContext, test_scores: dict[str, float]) -> None:
    """Print the best trial, or why there is none, and why the sweep ended early.

    Raises:
        UserError: training showed a mistake in what was asked (a metric that is never logged).
    """
    plan, record, end = context.plan, context.record, context.end
    if end.outcome is Outcome.ERROR:
        raise UserError("\n".join([end.error, *_after_error(context)]))
    best = record.best()
    print()
    _print(_failure(record) if best is None else _best(plan, record, best, test_scores))
    if end.outcome is Outcome.LOST:
        is_there = os.access(plan.folder, os.F_OK)  # `is_dir` raises where a share does not answer
        kept = "All results so far are recorded" if is_there else "Put it back before you resume"
        say(f"The sweep stopped: {end.error}. {kept}.")
    elif end.outcome is not Outcome.FINISHED:
        is_out_of_time = end.outcome is Outcome.OUT_OF_TIME
        how = "reached --time-budget-hours" if is_out_of_time else f"was {end.outcome}"
        say(f"The sweep {how}{status.how_far(record)}.")
    elif limit := status.enough(record):
        _print([("Enough", limit + limits.missed_when_confirmed(plan.config, record))])
    if end.can_save:
        _print(_saved(plan, record))
    _print([("Folder", shown_path(plan.folder))])


def write_report(record: Record) -> None:
    """Write `report.html`, and print where it is."""
    if record.trials:
        with step("Writing the report", stays=False):
            where = _report(record)
        _print([("Report", where)])


def print_next_step(context: RunContext) -> int:
    """Print the command that repeats or resumes the sweep; the exit status."""
    record, outcome = context.record, context.end.outcome
    repeat = repeat_command(context.plan.folder, str(context.config.name))
    resume = resume_command(record.folder, *status.flags_of_resume(record))
    _print(_next(context.plan, record, (repeat, resume)))
    answer_end(record, outcome)
    json_output.answer(repeat=repeat)
    if (best := record.best()) is not None:
        json_output.answer(retrain=_retrain(context.plan, best))
    if outcome is Outcome.FINISHED:
        _print([("Repeat", repeat)])
    else:
        _print([("Resume", resume)])
    if again := status.retry_command(record):
        _print([("Retry", again)])
    if outcome is Outcome.INTERRUPTED:
        return 130
    return 0 if outcome is not Outcome.LOST and record.best() else 1


def answer_end(record: Record, outcome: Outcome) -> None:
    """Say in the last line of JSON how the sweep has ended."""
    report, weights = record.folder / REPORT_FILE, record.folder / BEST_FOLDER
    json_output.answer(
        outcome=outcome,
        best=event_lines.best_of(record),
        trials=len(record.searched),
        elapsed_s=record.elapsed_s,
        report=str(report) if os.access(report, os.F_OK) else None,
        best_folder=str(weights) if os.access(weights, os.F_OK) else None,
    )


def _next(plan: Plan, record: Record, told: Sequence[str]) -> Iterator[Line]:
    """What the report advises, without the commands that are told beside it."""
    try:
        from sweeps.analysis import advice  # SciPy: as the report

        steps = advice.advise(Sweep(record)).steps
    except Exception:  # of SciPy or pandas: the sweep is complete, and the report has told the same error
        return
    best = record.best()
    retrain = "" if best is None else _retrain(plan, best)
    for step_ in steps:
        if step_.command not in (*told, retrain):
            yield "Next", step_.text
            yield "", step_.command


def _retrain(plan: Plan, trial: TrialRow) -> str:
    return command("fit", *winner.again(plan, trial), *local_dirs.typed_again())


def _after_error(context: RunContext) -> Iterator[str]:
    """What to do after a mistake that showed before anything was trained."""
    # Where the code that trains is in the sweep's folder, a repair of the project does not reach it.
    if any(model.trainable.kept_files() for model in context.plan.models):
        yield "Nothing was trained. Repair the code, and call sweeps.run again, with another name"
        return
    again = status.retry_command(context.record) or resume_command(context.record.folder)
    yield f"Nothing was trained. Repair the code, and resume: {again}"
    anew = repeat_command(context.plan.folder, str(context.config.name))
    yield f"For other settings, add them to the command of a new sweep: {anew}"


def _saved(plan: Plan, record: Record) -> Iterator[Line]:
    """What a resume repeats of each trial that was in training, and how many wait for others."""
    live = [trial for trial in record.live if not record.is_to_stop(trial.number)]
    trials = [trial for trial in live if not trial.is_paused]
    for trial in trials[:MOST_LISTED]:
        try:
            begins = run_start.where_it_continues(plan, record, trial)
        except StorageError as error:  # the others would wait for it, too
            yield "Unfinished", f"where a resume continues is not known: {error}"
            break
        now = status.epoch_now(record, trial)
        if 1 < now > len(trial.epochs) and not trial.position:  # its first epoch is started again anyway
            begins += f"; what it trained of epoch {now} is repeated"
        yield "Unfinished", f"trial {trial.number} {begins}"
    else:
        if len(trials) > MOST_LISTED:
            yield "", f"and {len(trials) - MOST_LISTED} more"
    for epoch, waiting in sorted(Counter(len(trial.epochs) for trial in live if trial.is_paused).items()):
        more = count(waiting, "more trial" if trials else "trial")
        waits = "waits" if waiting == 1 else "wait"
        yield "Unfinished", f"{more} {waits} at epoch {epoch} for other trials"


def _print(lines: Iterable[Line]) -> None:
    for title, text in lines:
        say(f"{title:<10} {text}", indent=11)


def _report(record: Record) -> str:
    """Write the report. The sweep is complete: a failure here costs a line."""
    try:
        from sweeps.analysis.report import page  # plotly and scipy: seconds that no sweep needs to begin

        return shown_path(page.write(record))
    except KeyboardInterrupt:
        why = ": interrupted by Ctrl-C"
    except Exception as error:  # of plotly, jinja2, a full disk: in any case the sweep is complete
        why = f", {type(error).__name__}: {error}"
    return f"not written{why}; write it again: {command('report', shown_path(record.folder))}"


def _best(plan: Plan, record: Record, best: TrialRow, test_scores: dict[str, float]) -> Iterator[Line]:
    yield from _front(plan, record) if record.objectives.are_several else _best_one(plan, record, best)
    of_knee = f"of trial {best.number}: " if len(record.front()) > 1 else ""
    yield "Params", of_knee + pairs(record.varied(best))
    for trial, reached in status.baselines(record):
        yield "Defaults", f"{_named(plan, record, trial)}: {reached}"
    if test_scores:
        scores = ", ".join(f"{name} {short(value)}" for name, value in test_scores.items())
        yield "Test", f"{scores} (on rows that no trial has seen; {_how_often(record)})"
    for status_ in BAD:
        if ended := [trial for trial in record.trials if trial.status == status_]:
            text = f"{count(len(ended), 'trial')}. Most common reason: {_commonest(ended)}"
            log = next((trial.log for trial in causes_of(ended)[0].trials if trial.log), None)
            yield status_.capitalize(), text + (f"; {shown_path(record.folder / log)}" if log else "")
    if os.access(plan.folder / BEST_FOLDER, os.F_OK):
        more = len(record.front()) - 1
        others = (
            f" (those of {count(more, 'other trial')} of the front in its folders trial_*)" if more else ""
        )
        of_held, held = "", retention.run_of_best_folder(plan.folder / BEST_FOLDER)
        own = (best.number, *(rerun.number for rerun in record.reruns_of(best.number)))
        if held is not None and held not in own:
            best = record.trials[held]
            others, of_held = f" (of trial {held})", f"of trial {held}: "
        elif held is not None:
            best_epoch = record.trials[held].best_epoch(record.objective)
            if retention.run_of_best_folder(plan.folder / BEST_FOLDER, best_epoch) is None:
                others = " (of an earlier epoch)"
        title = "Weights" if files_of_weights(plan.folder / BEST_FOLDER) else "Settings"
        yield title, shown_path(plan.folder / BEST_FOLDER) + others
        yield "Retrain", of_held + _retrain(plan, best)


def _best_one(plan: Plan, record: Record, best: TrialRow) -> Iterator[Line]:
    score, epoch = short(best.best_score(record.objective)), best.best_epoch(record.objective)
    confirmed = record.confirmed()
    if not confirmed:
        found = f"{score} in epoch {epoch}{_how_final(record)}"
    elif confirmed[0].scores:
        found = f"{_mean(confirmed[0])} with new seeds"
    else:
        found = f"{score} in the search; no rerun with a new seed finished"
    yield "Best", f"{_named(plan, record, best)}: {record.objective.metric} {found}"
    yield from _confirmed(record, confirmed)


def _front(plan: Plan, record: Record) -> Iterator[Line]:
    """A line for each trial of the front, the knee first."""
    front, confirmed = record.front(), {trial.number: trial for trial in record.confirmed() if trial.scores}
    of = " by the means of the reruns" if confirmed else f" of {len(record.searched):,}"
    found = f"{count(len(front), 'trial')}{of}, which no other trial dominates in"
    yield "Front", f"{found} {', '.join(record.objectives.metrics)}{_how_final(record)}"
    for number in front[:MOST_LISTED]:
        trial = record.trials[number]
        found = f"{status.in_words(record, trial.values(record.objectives))} in epoch"
        found += f" {trial.best_epoch(record.objective)}"
        if number in confirmed:
            means, reruns = confirmed[number].means, count(len(confirmed[number].scores), "rerun")
            found = f"{status.in_words(record, means)}, mean of {reruns}; in the search {found}"
        yield ("Knee" if number == front[0] else ""), f"{_named(plan, record, trial)}: {found}"
    if (rest := len(front) - MOST_LISTED) > 0:
        yield "", f"and {rest} more, which the report lists"


def _named(plan: Plan, record: Record, trial: TrialRow) -> str:
    """`trial 3 (cnn, unfinished)`"""
    model = trial.trainable if len(plan.models) > 1 else ""
    notes = [note for note in (model, status.not_ended(record, trial)) if note]
    return f"trial {trial.number}" + (f" ({', '.join(notes)})" if notes else "")


def _how_final(record: Record) -> str:
    """Whether reruns may still change which trial is the best."""
    is_searched = not status.unfinished(record)
    return ", not confirmed yet" if is_searched and record.is_to_be_confirmed else ""


def _how_often(record: Record) -> str:
    """With each further winner that is scored, the test rows are a weaker test."""
    runs = [str(test.run) for test in record.info.tests]
    return "scored once" if len(runs) < 2 else f"scored {len(runs)} times, for trials {', '.join(runs)}"


def _confirmed(record: Record, confirmed: Sequence[Confirmed]) -> Iterator[Line]:
    """A line for each trial that was confirmed."""
    for trial in confirmed:
        searched = short(record.trials[trial.number].best_score(record.objective))
        failures = f", {count(trial.failures, 'rerun')} failed or diverged" if trial.failures else ""
        found = f"{_mean(trial)} ({', '.join(map(short, trial.scores))})" if trial.scores else "no score"
        yield "Confirmed", f"trial {trial.number}: {found}{failures}; {searched} in the search"


def _mean(trial: Confirmed) -> str:
    spread = "" if trial.std is None else f" +/- {short(trial.std)}"
    return f"{short(trial.mean)}{spread}, mean of {count(len(trial.scores), 'rerun')}"


def _failure(record: Record) -> Iterator[Line]:
    ended = [trial for trial in record.trials if trial.status != "unfinished"]
    if not ended:
        yield "Result", status.no_score(record)
        return
    yield "Result", f"No trial succeeded: {len(ended)} ended. Most common reason: {_commonest(ended)}"
    if log := next((trial.log for trial in ended if trial.log and not constraints.is_missed(trial)), None):
        yield "Traceback", shown_path(record.folder / log)


def _commonest(trials: Sequence[TrialRow]) -> str:
    for most in causes_of(trials):
        return f"{most.reason} ({len(most.trials)} times)" if len(most.trials) > 1 else most.reason
    return trials[0].reason  # all were stopped
