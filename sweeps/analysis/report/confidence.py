"""Confidence in the best trial: what its reruns with new seeds show, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import count, short
from sweeps.common.objective import Objective
from sweeps.config.next_commands import resume_command
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.reruns import Confirmed


def confidence(sweep: Sweep) -> list[str]:
    """Whether the lead of the best trial is more than the spread over seeds; none without a best trial."""
    record = sweep.record
    if record.best() is None:
        return []
    found = confirmed(sweep)
    if record.objectives.are_several:
        said = _on_front(sweep)
    elif len(found) > 1:
        said = _lead(found[0], found[1], record.objective)
    elif found:
        said = _only_one(record)
    elif record.confirmed_so_far():
        said = _without_result(record)
    else:
        seed = "Each trial was trained with one seed, so it is not known how much of a lead is chance."
        said = " ".join([seed, *_lead_in_search(record), *_on_confirming(sweep)])
    return [f"Confidence: {said}"]


def to_confirm(sweep: Sweep) -> str:
    """The command that reruns the best trials with new seeds; "" where that was asked for, or the sweep is
    running."""
    record = sweep.record
    if record.best() is None or record.info.confirm or status.is_running(record):
        return ""
    return resume_command(sweep.folder, "--confirm", "3")


def confirmed(sweep: Sweep) -> list[Confirmed]:
    """Trials whose reruns have scores, the best one first; none while reruns of the top are to come."""
    return [trial for trial in sweep.record.confirmed() if trial.scores]


def over_seeds(trial: Confirmed) -> str:
    """`0.92 ± 0.01 (mean ± standard deviation over 3 new seeds)`"""
    if not trial.scores:
        return f"no score ({count(trial.failures, 'rerun')} failed or diverged)"
    seeds = count(len(trial.scores), "new seed")
    failed = f"; {count(trial.failures, 'more rerun')} failed or diverged" if trial.failures else ""
    if trial.std is None:
        return f"{short(trial.mean)} (with {seeds}{failed})"
    return f"{short(trial.mean)} ± {trial.std:.2g} (mean ± standard deviation over {seeds}{failed})"


def _without_result(record: Record) -> str:
    """Of a sweep whose reruns decide nothing (yet)."""
    scores = "; ".join(f"trial {trial.number}: {over_seeds(trial)}" for trial in record.confirmed_so_far())
    lead = " ".join(["It is not known how much of the lead is chance.", *_lead_in_search(record)])
    if record.confirmed():
        return f"No rerun of the best trials ended well ({scores}). {lead}"
    return f"The reruns have not ended ({status.reruns_left(record)}). Their scores so far: {scores}. {lead}"


def _lead_in_search(record: Record) -> Iterator[str]:
    leaders = (record.trials[number].best_score(record.objective) for number in record.leaders(2))
    scores = [score for score in leaders if score is not None]
    if len(scores) == 2:
        lead = short(abs(scores[0] - scores[1]))
        where = "In the search the" if record.rerun_trials else "The"
        same = "The second best trial has the same score."
        yield same if scores[0] == scores[1] else f"{where} best trial leads the second best by {lead}."


def _only_one(record: Record) -> str:
    """Where one trial alone has scores with new seeds."""
    others = [str(trial.number) for trial in record.confirmed() if not trial.scores]
    rest = "No other trial was trained again, so another trial may be as good."
    if not others:
        return rest
    which = f"trial{'s' if len(others) > 1 else ''} {' and '.join(others)}"
    return f"All reruns of {which} failed or diverged. {rest}"


def _on_confirming(sweep: Sweep) -> Iterator[str]:
    """What the command does, or what is left, where reruns were asked for."""
    record = sweep.record
    if to_confirm(sweep):
        yield "This command trains the best trials again with 3 new seeds, as a part of this sweep:"
    elif status.is_in_confirmation(record):
        yield f"Reruns of the best trials with new seeds are to measure that: {status.reruns_left(record)}."
    elif record.info.confirm:
        yield "When the search has ended, the best trials are trained again with new seeds."


def _on_front(sweep: Sweep) -> str:
    """Of several objectives: which of the confirmed trials are on the front of the means."""
    record, found = sweep.record, confirmed(sweep)
    if not found:
        seed = "Each trial was trained with one seed, so a trial may be on the front by chance."
        return " ".join([seed, *_on_confirming(sweep)])
    front, off = record.front(), [str(trial.number) for trial in found if trial.number not in record.front()]
    were = f"{count(len(found), 'trial')} of the front of the search were trained again."
    if not off:
        return f"{were} All are on the front of the means, too."
    which = f"trial{'s' if len(off) > 1 else ''} {', '.join(off)}"
    return f"{were} {len(front)} of them are on the front of the means. Those that are not: {which}."


def _lead(first: Confirmed, second: Confirmed, objective: Objective) -> str:
    """Whether two confirmed trials differ by more than their seeds do."""
    lead = (first.mean - second.mean) * objective.sign
    if first.failures < second.failures:
        scores = f"Trial {second.number} is second: {over_seeds(second)}"
        return f"{scores}. Trials with fewer failed reruns rank first."
    if short(first.mean) == short(second.mean):
        return f"Trial {second.number} has the same mean: either trial may be the better one."
    words = f"The best trial leads trial {second.number} by {short(lead)} on average"
    if first.std is None or second.std is None:
        return f"{words}. With one new seed each, the spread over seeds is not known."
    error = math.sqrt(first.std**2 / len(first.scores) + second.std**2 / len(second.scores))
    if lead > 2 * error:
        return f"{words}, more than twice the standard error of the difference ({short(error)})."
    return (
        f"{words}, not more than twice the standard error of the difference ({short(error)}): either trial "
        "may be the better one."
    )
