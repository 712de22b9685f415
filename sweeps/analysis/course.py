"""How a sweep went: its best score so far, what happened at each rung, and why trials failed."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Literal, NamedTuple

import numpy as np

from sweeps.common.errors import without_worker
from sweeps.common.formatting import duration
from sweeps.record.ranking import RankedTrials
from sweeps.record.record import Record
from sweeps.record.trials import BAD, Status, TrialRow
from sweeps.search.rungs import rungs

Measure = Literal["trials", "epochs", "hours"]
MEASURES: dict[Measure, str] = {
    "trials": "trials ended",
    "epochs": "epochs trained, sum of all trials",
    "hours": "hours of the sweep",
}
Steps = list[tuple[float, float]]
"""What was spent until then, and the best score so far, wherever it got better; the last one ends it."""


def best_so_far(record: RankedTrials, measure: Measure, most: int = 0) -> Steps:
    """The best score against what was spent for it; [] where no epoch has a finite score. Of more steps than
    `most`, if that is not 0, an even sample is taken."""
    steps: Steps = []
    spent = 0.0
    for spent, score in _of_trials(record) if measure == "trials" else _of_epochs(record, measure):
        if record.objective.is_better(score, steps[-1][1] if steps else None):
            steps.append((spent, score))
    if 1 < most < len(steps):
        steps = [steps[round(place * (len(steps) - 1) / (most - 1))] for place in range(most)]
    return [*steps, (spent, steps[-1][1])] if steps else []


def in_order_of_ends(record: RankedTrials) -> list[TrialRow]:
    """The trials of the search that have ended."""
    ended = [trial for trial in record.searched if trial.end is not None]
    return sorted(ended, key=lambda trial: (trial.end, trial.number))


def _of_trials(record: RankedTrials) -> Iterable[tuple[float, float]]:
    """Trials that ended in their order, with the score of those that ended well."""
    for place, trial in enumerate(in_order_of_ends(record), start=1):
        score = None if trial.status in BAD else trial.best_score(record.objective)
        yield place, math.nan if score is None else score


def _of_epochs(record: RankedTrials, measure: Measure) -> Iterable[tuple[float, float]]:
    """Reports in their order; those of a trial that failed or diverged later do not count."""
    reports = [
        (row.time, row.elapsed_s, math.nan if trial.status in BAD else row.score)
        for trial in record.searched
        for *_, row in trial.every_report()
    ]
    for place, (_, elapsed_s, score) in enumerate(sorted(reports), start=1):
        yield place if measure == "epochs" else elapsed_s / 3600, score


def pruned_at(record: Record) -> dict[int, int]:
    """Epochs at which trials were pruned, and how many; the ten most common ones, in order."""
    pruned = Counter(max(t.epochs) for t in record.searched if t.status == "pruned" and t.epochs)
    return dict(sorted(pruned.most_common(10)))


def judged_at(record: Record) -> list[int]:
    """The rungs of a sweep, then its last epoch; none of a record that does not name them."""
    config, is_known = record.info.settings, "max_epochs" in record.info.identity["settings"]
    return [*rungs(config), config.max_epochs] if is_known else []


def at_rungs(record: Record) -> list[list[str]]:
    """A row, in words, per rung that a trial of the search has reached; none where nothing is pruned.

    Its cells: the epoch; trials that reached it, continued without waiting, continued after a wait, were
    stopped; of those, how many would have led at the next rung, or the end, as estimated by those that
    reached it.
    """
    if record.info.settings.scheduler == "none":
        return []
    rows = (_at_rung(record, *epochs) for epochs in itertools.pairwise(judged_at(record)))
    return [row for row in rows if row]


def _at_rung(record: Record, epoch: int, next_epoch: int) -> list[str]:
    if not (there := [trial for trial in record.searched if epoch in trial.epochs]):
        return []
    stopped = [trial for trial in there if trial.status == "pruned" and max(trial.epochs) == epoch]
    continued = [trial for trial in there if epoch + 1 in trial.epochs]
    paused = [trial.pauses[epoch] for trial in continued if epoch in trial.pauses]
    waits_s = [pause.ended - pause.began for pause in paused if pause.ended is not None]
    in_vain = sum(epoch in trial.pauses for trial in stopped)
    leaders = _leaders(record, there, stopped, epoch, next_epoch)
    return [
        *map(str, (epoch, len(there), len(continued) - len(paused))),
        str(len(paused)) + (f" for {duration(median(waits_s))} (median)" if waits_s else ""),
        str(len(stopped)) + (f", {in_vain} of them after a wait" if in_vain else ""),
        "not known" if leaders is None else f"about {leaders:.1f}",
    ]


def _leaders(
    record: Record, there: Sequence[TrialRow], stopped: Sequence[TrialRow], epoch: int, next_epoch: int
) -> float | None:
    """Sum of the probabilities that a stopped trial would have beaten all others at the next rung, by a line
    through the scores of those that reached both, with normal residuals; None of too few of these, or of
    several objectives."""
    if record.objectives.are_several:  # a line has no order of fronts
        return None
    sign = record.objective.sign
    both = [trial for trial in there if next_epoch in trial.epochs]
    first, last = (np.array([sign * t.epochs[e].score for t in both]) for e in (epoch, next_epoch))
    sound = np.isfinite(first) & np.isfinite(last)
    first, last = first[sound], last[sound]
    if len(first) < 5 or np.ptp(first) == 0 or np.ptp(last) == 0:
        return None
    slope, start = np.polyfit(first, last, 1)
    if slope < 0:  # the line says nothing about those that were worse
        slope, start = 0.0, last.mean()
    residual = math.sqrt(float(((last - start - slope * first) ** 2).sum()) / (len(first) - 2))
    scores = np.array([sign * trial.epochs[epoch].score for trial in stopped])
    behind = last.max() - start - slope * scores[np.isfinite(scores)]
    from scipy.stats import norm  # seconds, which the page of all sweeps does without

    return float(norm.sf(behind, scale=max(residual, 1e-12)).sum())


class Cause(NamedTuple):
    """Trials that failed, diverged or are infeasible alike."""

    status: Status
    reason: str
    """What is the same in all of them; numbers that differ are N."""
    trials: tuple[TrialRow, ...]


def causes_of(trials: Iterable[TrialRow]) -> list[Cause]:
    """Why trials failed, diverged or are infeasible, the most common cause first."""
    alike: dict[tuple[Status, str], list[TrialRow]] = defaultdict(list)
    for trial in trials:
        if trial.status in BAD:
            reason = re.sub(r"(?<![A-Za-z_])[-+]?\d[\d.,]*(e[-+]?\d+)?", "N", without_worker(trial.reason))
            alike[trial.status, reason].append(trial)
    found = [
        Cause(status, bad[0].reason if len({trial.reason for trial in bad}) == 1 else reason, tuple(bad))
        for (status, reason), bad in alike.items()
    ]
    return sorted(found, key=lambda cause: -len(cause.trials))
