"""What a model of the trials is made from: their points and their results; and which points are feasible."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.search.gaussian_process import Array, GaussianProcess, RefittedGaussianProcess
from sweeps.search.rungs import rungs_and_end
from sweeps.space.optuna_space import Encoding, point_within
from sweeps.space.point import OptunaPoint, Point, Space

LEAST_PROBABILITY = 0.95
"""With which a proposal fits."""


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
        space: of the sweep, as it is now. Trials that are no points of it, since its ranges were others, are
            left out.
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


class Feasibility:
    """Which points of a space are feasible, as far as the trials have shown: they fit in memory, and meet the
    constraints.

    A Gaussian process over hyperparameters has 1 for each trial that trained an epoch, and 0 for each that is
    infeasible. A search that has a model takes the best of its candidates that is likely enough to fit, as
    Gelbart et al., 2014 (https://arxiv.org/abs/1403.5607), constrain an unknown function. This holds for its
    random candidates too. One of 20 proposals is not constrained, in case the model is wrong.
    """

    def __init__(self, seed: int, known: KnownTrials) -> None:
        self._seed, self._known = seed, known
        self._growing = RefittedGaussianProcess(2, self._data)

    def likely(self, number: int) -> Callable[[Array], NDArray[np.bool_]]:
        """For the trial of a number: which points [points, hyperparameters] are likely to fit."""
        if (model := self._model(number)) is None:
            return lambda coordinates: np.ones(len(coordinates), dtype=bool)
        features = self._known.encoding.features
        return lambda coordinates: _probabilities(model, features(coordinates)) >= LEAST_PROBABILITY

    def likely_first(self, number: int, candidates: Iterator[Point]) -> Iterator[Point]:
        """The candidates for the trial of a number, those first that are likely to fit."""
        if (model := self._model(number)) is None:
            yield from candidates
            return
        others: list[tuple[float, Point]] = []
        looked_at, encoding = itertools.islice(candidates, 1000), self._known.encoding
        while points := list(itertools.islice(looked_at, 16)):  # the model looks at these together
            rows = encoding.features(np.array([encoding.coordinates(point) for point in points]))
            for probability, point in zip(_probabilities(model, rows), points, strict=True):
                if probability >= LEAST_PROBABILITY:
                    yield point
                else:
                    others.append((probability, point))
        yield from (point for _, point in sorted(others, key=lambda other: -other[0]))
        yield from candidates

    def _model(self, number: int) -> GaussianProcess | None:
        """Of all trials of which it is known; None while all fit, or none does, and for a trial that is not
        constrained."""
        if np.random.default_rng(np.random.SeedSequence((self._seed, number, 2))).random() < 0.05:
            return None
        both = zip(self._known.trials, self._known.points, strict=True)
        known = [
            (index, trial.status != "infeasible")
            for index, (trial, point) in enumerate(both)
            if point is not None and (trial.status == "infeasible" or trial.epochs)
        ]
        return self._growing.fit(known) if len({fit for _, fit in known}) == 2 else None

    def _data(self, known: Sequence[tuple[int, bool]]) -> tuple[Array, Array, Array]:
        """Inputs, and 0 or 1 twice: infeasible trials stay known among many that fit."""
        rows = self._known.rows
        labels = np.array([float(fits) for _, fits in known])
        return self._known.encoding.features(np.array([rows[index] for index, _ in known])), labels, labels


def _probabilities(model: GaussianProcess, inputs: Array) -> Array:
    """[points], that each fits."""
    from scipy.special import ndtr  # a second of imports, with the model's

    mean, deviation = model.predict(inputs)
    found: Array = ndtr((mean - 0.5) / np.maximum(deviation, 1e-9))
    return found
