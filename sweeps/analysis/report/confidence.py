"""How sure the first place of a sweep is: what its reruns with new seeds say, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import command, count, place, short
from sweeps.common.objective import Objective
from sweeps.record import status
from sweeps.record.reruns import Confirmed


def sureness(sweep: Sweep) -> list[str]:
    """How far the first place can be trusted."""
    if sweep.record.best() is None:
        return []
    found = confirmed(sweep)
    if not found:
        said = _on_reruns(sweep) if sweep.record.reruns.so_far() else _one_seed(sweep)
    elif len(found) == 1:
        said = f"{_only_one(sweep)}, so another one may be as good."
    else:
        said = _lead(found[0], found[1], sweep.record.objective)
    return [f"How sure is that? {said}"]


def to_confirm(sweep: Sweep) -> str:
    """What to type for more seeds; "" where they were asked for, or the sweep is running."""
    record = sweep.record
    if record.best() is None or record.info.confirm or status.status(record) == "running":
        return ""
    return command("run", "--resume", place(sweep.folder.resolve()), "--confirm", "3")


def confirmed(sweep: Sweep) -> list[Confirmed]:
    """Trials whose reruns have scores, the best one first; none while reruns of the top are to come."""
    return [one for one in sweep.record.confirmed() if one.scores]


def over_seeds(one: Confirmed) -> str:
    """`0.92 ± 0.01 (mean ± standard deviation over 3 new seeds)`"""
    if not one.scores:
        return f"nothing ({count(one.failures, 'rerun')} failed or diverged)"
    seeds = count(len(one.scores), "new seed")
    failed = f"; {count(one.failures, 'more rerun')} failed or diverged" if one.failures else ""
    if one.std is None:
        return f"{short(one.mean)} (with {seeds}{failed})"
    return f"{short(one.mean)} ± {one.std:.2g} (mean ± standard deviation over {seeds}{failed})"


def _one_seed(sweep: Sweep) -> str:
    """Of a sweep without a rerun that ended."""
    words = "One seed was seen of each trial, so how much of a lead is luck is not known."
    return " ".join([words, *_lead_in_search(sweep), *_on_confirming(sweep)])


def _on_reruns(sweep: Sweep) -> str:
    """Of a sweep whose reruns don't decide (yet): what those scored that ended."""
    record = sweep.record
    lead = " ".join(["How much of the lead is luck is not known.", *_lead_in_search(sweep)])
    scores = "; ".join(f"trial {one.number} {over_seeds(one)}" for one in record.reruns.so_far())
    if record.confirmed():
        return f"No rerun of the best ones with a new seed ended well: {scores}. {lead}"
    return (
        f"That is not decided: {status.reruns_left(record)}. "
        f"Those that ended scored, with new seeds: {scores}. {lead}"
    )


def _lead_in_search(sweep: Sweep) -> Iterator[str]:
    scores, where = _best_scores(sweep), "In the search it" if sweep.record.reruns.numbers else "It"
    if len(scores) < 2:
        return
    if scores[0] == scores[1]:
        yield "The next one has the same."
    else:
        yield f"{where} leads the next one by {short(abs(scores[0] - scores[1]))}."


def _only_one(sweep: Sweep) -> str:
    """What came of the reruns of others, where one trial alone has scores with new seeds."""
    others = [str(one.number) for one in sweep.record.confirmed() if not one.scores]
    if not others:
        return "No other trial has been trained again"
    of = f"trial{'s' if len(others) > 1 else ''} {' and '.join(others)}"
    return f"All reruns of {of} failed or diverged, and no other trial has been trained again"


def _on_confirming(sweep: Sweep) -> Iterator[str]:
    """What the command does, or what is left, where that was asked for."""
    record = sweep.record
    if to_confirm(sweep):
        yield "This trains the best ones again with 3 new seeds, in this very sweep:"
    elif status.is_in_confirmation(record):
        yield f"That the best are trained again with new seeds is to show it: {status.reruns_left(record)}."
    elif record.info.confirm:
        yield "When the search is through, the best are to be trained again with new seeds."


def _lead(first: Confirmed, second: Confirmed, objective: Objective) -> str:
    """Whether two confirmed trials differ by more than their seeds do."""
    lead = (first.mean - second.mean) * objective.sign
    if first.failures < second.failures:
        return f"Trial {second.number} comes next: {over_seeds(second)}. One with fewer failures ranks first."
    if short(first.mean) == short(second.mean):
        return f"Trial {second.number} has the same mean: either may be the better one."
    words = f"It leads trial {second.number} by {short(lead)} on average"
    if first.std is None or second.std is None:
        return f"{words}; one seed of each does not show how far scores differ by the seed alone."
    error = math.sqrt(first.std**2 / len(first.scores) + second.std**2 / len(second.scores))
    if lead > 2 * error:
        return f"{words}, more than twice the standard error of that ({short(error)})."
    return (
        f"{words}, not more than twice the standard error of that ({short(error)}): either may be the better "
        "one."
    )


def _best_scores(sweep: Sweep) -> Sequence[float]:
    record = sweep.record
    scores = (record.trials[number].best_score(record.objective) for number in record.leaders(2))
    return [score for score in scores if score is not None]
