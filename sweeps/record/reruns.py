"""Trials that were rerun with new seeds, and which of them is the best.

The best of many scores was chosen for being high, so a part of it is luck, and what a search reports of its
winner flatters it. Reruns were chosen for nothing: their mean has no such part. That is why the score of the
search itself is not in the mean.
"""

from __future__ import annotations

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
    """Reruns that failed or diverged: they have no score, and rank their trial below those with fewer."""

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
        """Take in a rerun when it begins."""
        assert rerun.confirms is not None
        self._of.setdefault(rerun.confirms, []).append(rerun)

    def of(self, number: int) -> Sequence[TrialRow]:
        """Those of a trial, but for those that were given up."""
        return [rerun for rerun in self._of.get(number, ()) if rerun.status != "pruned"]

    @property
    def numbers(self) -> Sequence[int]:
        """Trials that have been rerun."""
        return list(self._of)

    def so_far(self) -> list[Confirmed]:
        """Trials of which any rerun has ended, the best one first: more of them may be to come."""
        found = [self._confirmed(number) for number in self._of]
        return sorted((trial for trial in found if trial.scores or trial.failures), key=self._rank)

    def confirmed(self, seeds: int, top: Sequence[int]) -> list[Confirmed]:
        """Trials that are confirmed, the best one first; none while reruns of a top trial are to come.

        Args:
            seeds: how many reruns a trial needs to be confirmed.
            top: the trials that are to be confirmed.
        """
        if not top or not all(self._is_settled(number, seeds) for number in top):
            return []
        found = [self._confirmed(number) for number in self._of if self._is_settled(number, seeds)]
        return sorted(found, key=self._rank)

    def _is_settled(self, number: int, seeds: int) -> bool:
        ended = [rerun for rerun in self.of(number) if rerun.status != "unfinished"]
        return len(ended) >= seeds

    def _confirmed(self, number: int) -> Confirmed:
        ended = [rerun for rerun in self.of(number) if rerun.status != "unfinished"]
        scores = [rerun.best_score(self._objective) for rerun in ended if rerun.status == "finished"]
        finite = tuple(score for score in scores if score is not None)
        return Confirmed(number, finite, len(ended) - len(finite))

    def _rank(self, trial: Confirmed) -> tuple[bool, int, float, int]:
        mean = -self._objective.sign * trial.mean if trial.scores else 0.0
        return not trial.scores, trial.failures, mean, trial.number


def seeds(sweep_seed: int, count: int) -> list[int]:
    """New seeds, each another one and none the sweep's; more of them begin with the same.

    All trials are rerun with the same ones, so that they differ by their hyperparameters alone.
    """
    found: list[int] = []
    turn = 0
    while len(found) < count:
        state = np.random.SeedSequence((sweep_seed, turn), spawn_key=(2,)).generate_state(1)
        if (seed := int(state[0])) not in (sweep_seed, *found):
            found.append(seed)
        turn += 1
    return found
