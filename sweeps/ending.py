"""The last words of a sweep, and its exit status."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from sweeps.config import CONFIG_FILE
from sweeps.plan import Plan
from sweeps.record import Record
from sweeps.rows import TrialRow
from sweeps.stopping import End
from training import flags
from training.values import UserError
from training.words import command, count, place, short

INTERRUPTED = 130


def say(plan: Plan, record: Record, end: End, test_scores: dict[str, float]) -> int:
    """Print what came of the sweep; the exit status.

    Raises:
        UserError: training showed that what was asked can't be (a metric that is never logged).
    """
    if end.outcome == "error":
        raise UserError(end.error)
    best = record.best()
    if best is None:
        _say_failure(record)
    else:
        _say_best(plan, record, test_scores)
    unfinished = len(record.live)
    if end.outcome == "lost":
        print(f"The sweep broke off: {end.error}. What was recorded is whole.")
    elif end.outcome != "finished":
        print(f"The sweep was {_called(end.outcome)}; {count(unfinished, 'trial')} unfinished.")
    print(f"All of it  {place(plan.folder)}")
    print(_what_next(plan, record, end))
    if end.outcome == "interrupted":
        return INTERRUPTED
    return 0 if best and end.outcome != "lost" else 1


def _what_next(plan: Plan, record: Record, end: End) -> str:
    if end.outcome == "finished":
        again = ("--config", place(plan.folder / CONFIG_FILE), "--name", f"{plan.config.name}-again")
        return f"Repeat     {command('sweeps.run', *again, *flags.machine_given())}"
    more = flags.machine_given()
    if end.outcome == "out of time":
        more += ["--time-budget-hours", f"{math.ceil(20 * record.elapsed_s / 3600) / 10:g}"]
    return f"Go on      {command('sweeps.run', '--resume', place(plan.folder), *more)}"


def _say_best(plan: Plan, record: Record, test_scores: dict[str, float]) -> None:
    best = record.best()
    assert best is not None
    score, epoch = short(best.best_score(record.mode)), best.best_epoch(record.mode)
    model = f" ({best.trainable})" if len(plan.models) > 1 else ""
    ended = ", of those that ended" if record.live else ""
    print(f"\nBest       trial {best.number}{model}: {plan.config.metric} {score} in epoch {epoch}{ended}")
    print("Params     " + ", ".join(f"{name}={short(value)}" for name, value in best.params.items()))
    if test_scores:
        words = ", ".join(f"{name} {short(value)}" for name, value in test_scores.items())
        print(f"Test       {words} (rows that no trial has seen, scored once)")
    if (plan.folder / "best").is_dir():
        print(f"Weights    {place(plan.folder / 'best')}")
    failed = [trial for trial in record.trials if trial.status == "failed"]
    if failed:
        print(f"Failed     {count(len(failed), 'trial')}, most often: {_commonest(failed)}")


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
