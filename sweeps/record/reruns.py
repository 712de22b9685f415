"""Reruns of trials with new seeds, and the best of these trials.

The best of many scores was selected for being high, so the search overestimates its winner. Reruns are not
selected: their mean, without the score of the search itself, has no such bias.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.common.objective import Objective
from sweeps.record.trials import TrialRow


@dataclass(frozen=True)
class Confirmed:
    """A trial whose reruns have ended."""

    number: int
    """Of the trial."""
    scores: tuple[float, ...]
    """The best score of each rerun that ended well."""
    failures: int
    """Reruns that failed or diverged: a trial with more of them ranks lower."""

    @property
    def mean(self) -> float:
        """Of the scores; nan when no rerun ended well."""
        return statistics.fmean(self.scores) if self.scores else math.nan

    @property
    def std(self) -> float | None:
        """Sample standard deviation of the scores; None of fewer than two."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None


class Reruns:
    """The reruns of a record, by the trial that they rerun."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._of: dict[int, list[TrialRow]] = {}

    def add(self, rerun: TrialRow) -> None:
        assert rerun.confirms is not None
        self._of.setdefault(rerun.confirms, []).append(rerun)

    def of(self, number: int) -> Sequence[TrialRow]:
        """The reruns of a trial, without cancelled ones."""
        return [rerun for rerun in self._of.get(number, ()) if rerun.status != "pruned"]

    @property
    def numbers(self) -> Sequence[int]:
        """Trials that have reruns."""
        return list(self._of)

    def so_far(self) -> list[Confirmed]:
        """Trials of which a rerun has ended, the best one first; more reruns may be to come."""
        found = [self._confirmed(number) for number in self._of]
        return sorted((trial for trial in found if trial.scores or trial.failures), key=self._rank)

    def confirmed(self, seeds: int, top: Sequence[int]) -> list[Confirmed]:
        """Confirmed trials, the best one first; [] while reruns of a top trial are to come.

        Args:
            seeds: reruns that a trial needs to be confirmed.
            top: the trials to be confirmed.
        """
        settled = [number for number in self._of if len(self._ended(number)) >= seeds]
        if not top or not set(top) <= set(settled):
            return []
        return sorted(map(self._confirmed, settled), key=self._rank)

    def _ended(self, number: int) -> list[TrialRow]:
        return [rerun for rerun in self.of(number) if rerun.status != "unfinished"]

    def _confirmed(self, number: int) -> Confirmed:
        ended = self._ended(number)
        scores = [rerun.best_score(self._objective) for rerun in ended if rerun.status == "finished"]
        finite = tuple(score for score in scores if score is not None)
        return Confirmed(number, finite, len(ended) - len(finite))

    def _rank(self, trial: Confirmed) -> tuple[bool, int, float, int]:
        mean = -self._objective.sign * trial.mean if trial.scores else 0.0
        return not trial.scores, trial.failures, mean, trial.number


def seeds(sweep_seed: int, count: int) -> list[int]:
    """New seeds, all different from each other and from the sweep's; a larger count begins with the same.

    All trials are rerun with the same seeds, so that they differ by their hyperparameters alone.
    """
    found: list[int] = []
    for turn in itertools.count():
        if len(found) == count:
            break
        state = np.random.SeedSequence((sweep_seed, turn), spawn_key=(2,)).generate_state(1)
        if (seed := int(state[0])) not in (sweep_seed, *found):
            found.append(seed)
    return found
