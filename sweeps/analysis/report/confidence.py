"""Confidence in the best trial: what its reruns with new seeds show, in sentences."""

from __future__ import annotations

import math

import numpy as np

from sweeps.common.formatting import count, rounded, short
from sweeps.common.objective import Objective
from sweeps.config.sweep_folder import resume_command
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.reruns import Confirmed

LEAST_ROWS, MOST_ROWS = 20, 100_000
"""Of the validation data, that can be told."""
LEAST_SCORES, MOST_SCORES = 8, 1000
"""Different ones, of which the rows are told."""
ROUNDING = 1.2e-7
"""Of a score between 0 and 1 that was computed in 32 bits."""
PRINTED_DIGITS = 6
"""Behind the point, of a number that a program has rounded, at most."""
BY_ACCIDENT = 1e-3
"""Probability with which numbers that are no shares of any rows may look like ones."""


def confidence(record: Record) -> list[str]:
    """Whether the lead of the best trial is more than the spread over seeds; none without a best trial."""
    found = list(record.confirmed_with_score().values())
    if record.best() is None:
        return []
    if record.objectives.are_several and found:
        said = _on_front(record, found)
    elif len(found) > 1:
        said = _lead(found[0], found[1], record.objective)
    elif found:
        said = "No other trial has a score with new seeds, so another trial may be as good."
    elif so_far := record.confirmed_so_far():
        scores = "; ".join(f"trial {trial.number}: {over_seeds(trial)}" for trial in so_far)
        said = f"Reruns so far: {scores}; {status.reruns_left(record)}. {_lead_in_search(record)}"
    else:
        said = f"Each trial was trained with one seed. {_lead_in_search(record)}"
        if record.info.confirm:
            said += " When the search has ended, the best trials are trained again with new seeds."
        elif to_confirm(record):
            said += " This command trains the best trials again with 3 new seeds, as a part of this sweep:"
    return [f"Confidence: {said}"]


def to_confirm(record: Record) -> str:
    """The command that reruns the best trials with new seeds; "" where that was asked for, the sweep is
    running, or this version can't continue it."""
    is_over = record.info.is_of_this_version and not status.is_running(record)
    if record.best() is None or record.info.confirm or not is_over:
        return ""
    return resume_command(record.folder, "--confirm", "3")


def over_seeds(trial: Confirmed) -> str:
    """`0.92 ± 0.01 (mean ± standard deviation over 3 new seeds)`"""
    if not trial.scores:
        return f"no score ({count(trial.failures, 'rerun')} failed or diverged)"
    seeds = count(len(trial.scores), "new seed")
    failed = f"; {count(trial.failures, 'more rerun')} failed or diverged" if trial.failures else ""
    if trial.std is None:
        return f"{short(trial.mean)} (with {seeds}{failed})"
    return f"{short(trial.mean)} ± {rounded(trial.std)} (mean ± standard deviation over {seeds}{failed})"


def _lead_in_search(record: Record) -> str:
    unknown = "It is not known how much of a lead is chance."
    first, second = (*record.leaders(2), None, None)[:2]
    if record.objectives.are_several or first is None or second is None:
        return unknown
    scores = [record.trials[number].best_score(record.objective) or 0.0 for number in (first, second)]
    if scores[0] == scores[1]:
        return f"{unknown} In the search trial {second} has the same score as trial {first}."
    lead = abs(scores[0] - scores[1])
    leads = f"In the search trial {first} leads trial {second} by {short(lead)}."
    if (rows := validation_rows(record)) is None:
        return f"{unknown} {leads}"
    share = sum(scores) / 2  # of both: a share of 1, or of 0, alone would leave no room for chance
    chance = math.sqrt(2 * share * (1 - share) / rows)
    beyond = "within" if lead <= chance else "beyond" if lead > 2 * chance else "hardly beyond"
    return (
        f"{leads} {record.objective.metric} is a share of {rows:,} validation rows: of so many, two equally "
        f"good models differ by about {short(chance)} (one standard error). The lead is {beyond} chance."
    )


def validation_rows(record: Record) -> int | None:
    """Of how many rows the metric is a share, as an accuracy is: the least number of which each score is a
    whole number of rows, or is rounded from one, as programs print it. None where there is none: of a loss,
    and of a mean over batches of different sizes.

    Where it is less than there are, chance is thought too large rather than too small.
    """
    epochs = [row for trial in record.searched for row in trial.epochs.values()]
    every = {row.score for row in epochs}
    scores = np.array(sorted(score for score in every if math.isfinite(score)))[:MOST_SCORES]
    if len(scores) < LEAST_SCORES or scores[0] < 0 or scores[-1] > 1:
        return None
    digits = max(len(_digits(score)) for score in scores)
    if (rows := _least_rows(scores, max(ROUNDING, 0.5 / 10**digits))) is not None:
        return rows
    # Scores of 10,000 rows look like rounded ones; that others beside them are not rounded tells them apart.
    logged = (value for row in epochs[-1:] for value in row.metrics.values())
    are_exact = any(len(_digits(value).lstrip("0")) > PRINTED_DIGITS for value in logged)
    return _least_rows(scores, ROUNDING) if are_exact else None


def _digits(number: float) -> str:
    """Behind the point, of which 32 bits have nine at most."""
    return f"{number:.9f}".rstrip("0").partition(".")[2]


def _least_rows(scores: np.ndarray, rounding: float) -> int | None:
    """The least number of rows of which all scores are shares, but for their rounding; None where there is
    none, or where numbers that are no shares would have one as well."""
    rows = np.arange(LEAST_ROWS, min(MOST_ROWS, int(0.5 / rounding)) + 1)  # of more, every number is a share
    for score in scores:
        rows = rows[np.abs(score * rows - np.round(score * rows)) < 1e-6 + rounding * rows]
    tried = np.arange(LEAST_ROWS, 1 + rows.min(initial=MOST_ROWS))
    by_accident = np.minimum(2 * (1e-6 + rounding * tried), 1) ** len(scores)
    return int(rows[0]) if len(rows) and by_accident.sum() < BY_ACCIDENT else None


def _on_front(record: Record, found: list[Confirmed]) -> str:
    front = record.front()
    off = [str(trial.number) for trial in found if trial.number not in front]
    were = f"{count(len(found), 'trial')} of the front of the search were trained again."
    which = f" Those that are not: {', '.join(off)}." if off else ""
    return f"{were} {len(found) - len(off)} of them are on the front of the means.{which}"


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
    twice = f"more than twice the standard error of the difference ({short(error)})"
    if lead > 2 * error:
        return f"{words}, {twice}."
    return f"{words}, not {twice}: either trial may be the better one."
