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

from sweeps.common.objective import Losses, Objectives
from sweeps.record import pareto
from sweeps.record.trials import TrialRow


@dataclass(frozen=True)
class Confirmed:
    """A trial whose reruns have ended."""

    number: int
    """Of the trial."""
    scores: tuple[float, ...]
    """The best score of each rerun that ended well; of several objectives the first one's."""
    failures: int
    """Reruns that failed or diverged: a trial with more of them ranks lower."""
    others: tuple[tuple[float, ...], ...] = ()
    """Of several objectives, the values of the others in these epochs: those of each rerun."""

    @property
    def mean(self) -> float:
        """Of the scores; nan when no rerun ended well."""
        return statistics.fmean(self.scores) if self.scores else math.nan

    @property
    def means(self) -> tuple[float, ...]:
        """Of all objectives."""
        return self.mean, *(statistics.fmean(values) for values in zip(*self.others, strict=True))

    @property
    def std(self) -> float | None:
        """Sample standard deviation of the scores; None of fewer than two."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None


class Reruns:
    """The reruns of a record, by the trial that they rerun."""

    def __init__(self, objectives: Objectives) -> None:
        self._objectives = objectives
        self._of: dict[int, list[TrialRow]] = {}

    def add(self, rerun: TrialRow) -> None:
        assert rerun.confirms is not None
        self._of.setdefault(rerun.confirms, []).append(rerun)

    def confirming(self, number: int) -> Sequence[TrialRow]:
        """The reruns of a trial, without cancelled ones."""
        return [rerun for rerun in self._of.get(number, ()) if rerun.status != "pruned"]

    @property
    def numbers(self) -> Sequence[int]:
        """Trials that have reruns."""
        return list(self._of)

    def so_far(self) -> list[Confirmed]:
        """Trials of which a rerun has ended, the best one first; more reruns may be to come."""
        found = [self._confirmed(number) for number in self._of]
        return self._in_order([trial for trial in found if trial.scores or trial.failures])

    def confirmed(self, seeds: int, top: Sequence[int]) -> list[Confirmed]:
        """Confirmed trials, the best one first; [] while reruns of a top trial are to come.

        Args:
            seeds: reruns that a trial needs to be confirmed.
            top: the trials to be confirmed.
        """
        settled = [number for number in self._of if len(self._ended(number)) >= seeds]
        if not top or not set(top) <= set(settled):
            return []
        return self._in_order([self._confirmed(number) for number in settled])

    def front(self, confirmed: Sequence[Confirmed]) -> list[int]:
        """Numbers of the confirmed trials that no other one dominates by its means, in their order."""
        scored = [trial for trial in confirmed if trial.scores]
        first = pareto.best_first(np.array([self._losses(trial) for trial in scored]))[0]
        return [trial.number for place, trial in enumerate(scored) if place in first]

    def _ended(self, number: int) -> list[TrialRow]:
        return [rerun for rerun in self.confirming(number) if rerun.status != "unfinished"]

    def _confirmed(self, number: int) -> Confirmed:
        ended = self._ended(number)
        values = [rerun.values(self._objectives) for rerun in ended if rerun.status == "finished"]
        found = [each for each in values if each is not None]
        scores, others = tuple(score for score, *_ in found), tuple(tuple(rest) for _, *rest in found)
        return Confirmed(number, scores, len(ended) - len(found), others)

    def _in_order(self, trials: Sequence[Confirmed]) -> list[Confirmed]:
        """The best one first: those with scores, with few failures, by their means."""
        scored = sorted((trial for trial in trials if trial.scores), key=lambda trial: trial.number)
        order: list[Confirmed] = []
        if scored:
            fronts = pareto.best_first(np.array([self._losses(trial) for trial in scored]))
            order = [scored[place] for front in fronts for place in front]
        without = sorted((trial for trial in trials if not trial.scores), key=lambda trial: trial.number)
        return [*order, *sorted(without, key=lambda trial: trial.failures)]

    def _losses(self, trial: Confirmed) -> Losses:
        """Of the means; a rerun that failed counts as a constraint that was missed."""
        every = zip(self._objectives.every, trial.means, strict=True)
        return float(trial.failures), *(-each.sign * mean for each, mean in every)


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
