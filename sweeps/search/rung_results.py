"""Scores of a record's trials at the rungs and at the end, in the order in which they were reported."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.record.record import Record
from sweeps.record.trials import TrialRow


@dataclass(frozen=True)
class Result:
    """The score of a trial at a rung or at the end."""

    trial: int
    """Its index in `RungResults.trials`."""
    epoch: int
    score: float
    """Larger is better; -inf at the first rung says that the trial diverged, whatever it scored before."""


class RungResults:
    """Reads a record, each time what it has got since.

    Args:
        record: of the sweep; the trials of the sweep that it refines come first.
        epochs: the rungs and the end, ascending.
    """

    def __init__(self, record: Record, epochs: Sequence[int]) -> None:
        self._record, self._epochs = record, epochs
        self._read = dict.fromkeys(epochs, 0)
        self._are_earlier_read = False
        self._diverged: set[int] = set()

    @property
    def trials(self) -> list[TrialRow]:
        """Those of earlier sweeps, then the searched ones."""
        return [*self._record.earlier.trials, *self._record.searched]

    def new(self) -> list[Result]:
        """What has come since the last call, in the order of the reports."""
        found = [*self._new_earlier(), *self._new_scores(), *self._new_diverged()]
        return [
            result for _, result in sorted(found, key=lambda each: (each[0], each[1].trial, each[1].epoch))
        ]

    def _new_earlier(self) -> list[tuple[float, Result]]:
        """Of the trials of earlier sweeps, once; before all others."""
        if self._are_earlier_read:
            return []
        self._are_earlier_read = True
        both = itertools.product(enumerate(self._record.earlier.trials), self._epochs)
        return [
            (0.0, self._scored(index, trial, epoch))
            for (index, trial), epoch in both
            if epoch in trial.epochs
        ]

    def _new_scores(self) -> list[tuple[float, Result]]:
        """Of this sweep's trials, with the times at which they were reported."""
        found = []
        for epoch in self._epochs:
            scores = self._record.scores_at(epoch)
            for number in itertools.islice(scores, self._read[epoch], None):
                trial = self._record.trials[number]
                index = len(self._record.earlier.trials) + self._record.nth(number)
                found.append((trial.epochs[epoch].time, self._scored(index, trial, epoch)))
            self._read[epoch] = len(scores)
        return found

    def _new_diverged(self) -> list[tuple[float, Result]]:
        found = []
        for index, trial in enumerate(self.trials):
            if trial.status == "diverged" and index not in self._diverged:
                self._diverged.add(index)
                moment = max((reported.time for reported in trial.epochs.values()), default=0.0)
                found.append((moment, Result(index, self._epochs[0], -math.inf)))
        return found

    def _scored(self, index: int, trial: TrialRow, epoch: int) -> Result:
        return Result(index, epoch, self._record.objective.sign * trial.epochs[epoch].score)
