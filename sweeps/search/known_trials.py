"""What a model of the trials is made from: their points and their results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.search.rungs import rungs_and_end
from sweeps.space.encoding import Encoding
from sweeps.space.numeric_range import Array
from sweeps.space.optuna_space import point_within
from sweeps.space.point import OptunaPoint, Space


class Result(NamedTuple):
    """The score of a trial at a rung or at the end."""

    trial: int
    """Its position in `KnownTrials.trials`."""
    epoch: int
    score: float
    """Larger is better; -inf at the first rung says that the trial diverged, whatever it scored before."""


class KnownTrials:
    """The trials of the sweeps that this one refines, then its own; the record alone decides.

    Args:
        config: its rungs.
        space: of the sweep, as it is now. Trials that are no points of it, since its ranges were others, are
            left out.
        record: of the sweep.
    """

    def __init__(self, config: SweepConfig, space: Space, record: Record) -> None:
        # Scores at an earlier end count as at a rung.
        ends = (raised.before for raised in record.info.raised)
        self._epochs = tuple(sorted({*rungs_and_end(config), *ends}))
        self._space, self._record = space, record
        self._ranges = config.ranges
        self._points: list[OptunaPoint | None] = []
        self._rows: list[Array | None] = []

    @property
    def trials(self) -> list[TrialRow]:
        return [*self._record.earlier.trials, *self._record.searched]

    @property
    def points(self) -> Sequence[OptunaPoint | None]:
        """Of each trial; None of one that is left out."""
        self._points += [self._point(trial) for trial in self.trials[len(self._points) :]]
        return self._points

    @property
    def rows(self) -> Sequence[Array | None]:
        """The coordinates of each trial; None of one that is left out."""
        new, encoding = self.points[len(self._rows) :], self.encoding
        self._rows += [None if point is None else encoding.row(point.params) for point in new]
        return self._rows

    @cached_property
    def encoding(self) -> Encoding:
        """Of the space."""
        return Encoding.from_space(self._space)

    def fidelity(self, least_trials: int) -> int | None:
        """The highest rung, or the end, that so many trials have reached; None while there is none."""
        of_earlier = self.points[: len(self._record.earlier.trials)]
        before = Counter(
            epoch
            for trial, point in zip(self._record.earlier.trials, of_earlier, strict=True)
            for epoch in trial.epochs
            if point is not None
        )
        own = self.points[len(of_earlier) :]
        there = {
            trial.number for trial, point in zip(self._record.searched, own, strict=True) if point is not None
        }
        reached = {
            epoch: len(there & self._record.losses_at(epoch).keys()) + before[epoch] for epoch in self._epochs
        }
        return max((epoch for epoch, trials in reached.items() if trials >= least_trials), default=None)

    def results(self) -> list[Result]:
        """Scores at the rungs and at the end, in the order of the reports; those of earlier sweeps first."""
        sign, earlier = self._record.objective.sign, len(self._record.earlier.trials)
        found: list[tuple[float, Result]] = []
        for index, (trial, point) in enumerate(zip(self.trials, self.points, strict=True)):
            if point is None:
                continue
            for epoch in self._epochs:
                if (row := trial.epochs.get(epoch)) is not None and math.isfinite(row.score):
                    moment = row.time if index >= earlier else 0.0
                    found.append((moment, Result(index, epoch, sign * row.score)))
            if trial.status == "diverged":
                moment = max((reported.time for reported in trial.epochs.values()), default=0.0)
                found.append((moment, Result(index, self._epochs[0], -math.inf)))
        return [result for _, result in sorted(found)]

    def scores_at_first_rung(self) -> dict[int, float]:
        """The score of each trial at the first rung, by its position; -inf of one that diverged."""
        return {each.trial: each.score for each in self.results() if each.epoch == self._epochs[0]}

    def _point(self, trial: TrialRow) -> OptunaPoint | None:
        # Earlier trials count also where what is fixed now had another value.
        found = point_within(self._space, trial.point, self._ranges if trial.number >= 0 else ())
        return None if found is None else found[1]
