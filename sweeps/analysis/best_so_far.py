"""The best score of a sweep as it went on: by trials that ended, by epochs trained, by hours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from sweeps.record.ranking import RankedTrials
from sweeps.record.trials import BAD

Measure = Literal["trials", "epochs", "hours"]
MEASURES: dict[Measure, str] = {
    "trials": "trials ended",
    "epochs": "epochs trained, sum of all trials",
    "hours": "hours of the sweep",
}
Steps = list[tuple[float, float]]
"""What was spent until then, and the best score so far, wherever it got better; the last one ends it."""


def best_so_far(record: RankedTrials, measure: Measure, most: int = 0) -> Steps:
    """The best score against what was spent for it; [] where no epoch has a finite score.

    Args:
        record: of a sweep.
        measure: what was spent.
        most: steps, of which an even sample is taken where there are more; 0 for all.
    """
    steps: Steps = []
    spent = 0.0
    for spent, score in _of_trials(record) if measure == "trials" else _of_epochs(record, measure):
        if record.objective.is_better(score, steps[-1][1] if steps else None):
            steps.append((spent, score))
    if 1 < most < len(steps):
        steps = [steps[round(place * (len(steps) - 1) / (most - 1))] for place in range(most)]
    return [*steps, (spent, steps[-1][1])] if steps else []


def _of_trials(record: RankedTrials) -> Iterable[tuple[float, float]]:
    """Trials that ended in their order, with the score of those that ended well."""
    ended = [trial for trial in record.searched if trial.end is not None]
    ended.sort(key=lambda trial: (trial.end, trial.number))
    for place, trial in enumerate(ended, start=1):
        score = None if trial.status in BAD else trial.best_score(record.objective)
        yield place, float("nan") if score is None else score


def _of_epochs(record: RankedTrials, measure: Measure) -> Iterable[tuple[float, float]]:
    """Reports in their order; those of a trial that failed or diverged later do not count."""
    reports = [
        (row.time, row.elapsed_s, float("nan") if trial.status in BAD else row.score)
        for trial in record.searched
        for *_, row in trial.every_report()
    ]
    for place, (_, elapsed_s, score) in enumerate(sorted(reports), start=1):
        yield place if measure == "epochs" else elapsed_s / 3600, score
