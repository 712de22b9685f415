"""The last words of a sweep, and its exit status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sweeps.analysis.report import page
from sweeps.analysis.sweep import Sweep
from sweeps.common.cli import parser
from sweeps.common.errors import UserError
from sweeps.common.formatting import command, count, place, short
from sweeps.config import sweep_folder
from sweeps.config.sweep_folder import CONFIG_FILE
from sweeps.execution import best_folder
from sweeps.execution.driver import Driver
from sweeps.execution.stopping import End
from sweeps.plan.plan import Plan
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.reruns import Confirmed
from sweeps.record.trials import TrialRow

INTERRUPTED = 130


def say(driver: Driver, test_scores: dict[str, float]) -> int:
    """Print what came of the sweep; the exit status.

    Raises:
        UserError: training showed that what was asked can't be (a metric that is never logged).
    """
    plan, record, end = driver.plan, driver.record, driver.end
    if end.outcome == "error":
        raise UserError(end.error)
    best = record.best()
    if best is None:
        _say_failure(record)
    else:
        _say_best(plan, record, test_scores)
    if end.outcome == "lost":
        print(f"The sweep stopped: {end.error}. All results so far are recorded.")
    elif end.outcome != "finished":
        print(f"The sweep was {_called(end.outcome)}{status.how_far(record)}.")
    print(f"Folder     {place(plan.folder)}")
    if end.outcome != "lost" and record.trials:
        _report(record)
    print(_what_next(plan, record, end))
    if end.outcome == "interrupted":
        return INTERRUPTED
    return 0 if best and end.outcome != "lost" else 1


def _what_next(plan: Plan, record: Record, end: End) -> str:
    if end.outcome == "finished":
        again = ("--config", place(plan.folder / CONFIG_FILE), "--name", f"{plan.config.name}-again")
        return f"Repeat     {command('run', *again, *parser.machine_given())}"
    return f"Resume     {status.go_on(record)}"


def _report(record: Record) -> None:
    """Write the page about the sweep. The sweep is over, and whole: what fails here costs a line."""
    try:
        print(f"Report     {place(page.write(Sweep(record)))}")
    except KeyboardInterrupt:
        print("Report     not written: interrupted by Ctrl-C")
    except Exception as error:  # plotly's, jinja2's, a full disk's: whatever it is, the sweep is whole
        again = command("report", place(record.folder))
        print(f"Report     not written, {type(error).__name__}: {error}; write it again: {again}")


def _say_best(plan: Plan, record: Record, test_scores: dict[str, float]) -> None:
    best = record.best()
    assert best is not None
    score, epoch = short(best.best_score(record.objective)), best.best_epoch(record.objective)
    model = f" ({best.trainable})" if len(plan.models) > 1 else ""
    print(f"\nBest       trial {best.number}{model}: {plan.config.objective.metric} ", end="")
    if confirmed := record.confirmed():
        _say_confirmed(record, confirmed)
    else:
        ended = ", among the trials that ended" if status.unfinished(record) else ""
        ended = ended or (", not confirmed yet" if record.is_to_be_confirmed else "")
        print(f"{score} in epoch {epoch}{ended}")
    print("Params     " + ", ".join(f"{name}={short(value)}" for name, value in best.params.items()))
    if test_scores:
        words = ", ".join(f"{name} {short(value)}" for name, value in test_scores.items())
        print(f"Test       {words} (on rows that no trial has seen; {_how_often(record)})")
    if (plan.folder / sweep_folder.FOLDER).is_dir():
        print(f"Weights    {place(plan.folder / sweep_folder.FOLDER)}")
        fit_again = command("fit", *best_folder.again(plan, best), *parser.machine_given())
        print(f"Retrain    {fit_again}")
    failed = [trial for trial in record.trials if trial.status == "failed"]
    if failed:
        print(f"Failed     {count(len(failed), 'trial')}, most often: {_commonest(failed)}")


def _how_often(record: Record) -> str:
    """Each other winner that was scored takes a little of what makes these rows a test."""
    runs = [str(test.run) for test in record.info.tests]
    return "scored once" if len(runs) < 2 else f"scored {len(runs)} times, for trials {', '.join(runs)}"


def _say_confirmed(record: Record, confirmed: Sequence[Confirmed]) -> None:
    """The rest of the line of the best one, and a line for each that was trained again."""
    first = confirmed[0]
    if not first.scores:
        best = record.best()
        score = "" if best is None else short(best.best_score(record.objective))
        print(f"{score} in the search; no rerun with a new seed finished")
    else:
        print(f"{_mean(first)} with new seeds")
    for trial in confirmed:
        searched = short(record.trials[trial.number].best_score(record.objective))
        failures = f", {count(trial.failures, 'rerun')} failed or diverged" if trial.failures else ""
        words = f"{_mean(trial)} ({', '.join(map(short, trial.scores))})" if trial.scores else "no score"
        print(f"Confirmed  trial {trial.number}: {words}{failures}; {searched} in the search")


def _mean(trial: Confirmed) -> str:
    spread = "" if trial.std is None else f" +/- {short(trial.std)}"
    return f"{short(trial.mean)}{spread}, mean of {len(trial.scores)}"


def _say_failure(record: Record) -> None:
    ended = [trial for trial in record.trials if trial.status != "unfinished"]
    if not ended:
        print("\nNo trial ended.")
        return
    log = next((trial.log for trial in ended if trial.log), None)
    print(f"\nNo trial finished: {len(ended)} ended, most often: {_commonest(ended)}")
    if log:
        print(f"Traceback  {log} in the folder below")


def _commonest(trials: Sequence[TrialRow]) -> str:
    reasons = Counter(trial.reason for trial in trials)
    reason, times = reasons.most_common(1)[0]
    return f"{reason} ({times} times)" if times > 1 else reason


def _called(outcome: str) -> str:
    return {"out of time": "ended by --time-budget-hours"}.get(outcome, outcome)
