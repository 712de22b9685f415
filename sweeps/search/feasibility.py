"""Which points of a space are feasible, as far as the trials so far have shown: they fit in memory, and meet
the constraints.

A Gaussian process over hyperparameters has 1 for each trial that trained an epoch, and 0 for each that is
infeasible. A search that has a model takes the best of its candidates that is likely enough to fit, as
Gelbart et al., 2014 (https://arxiv.org/abs/1403.5607), constrain an unknown function. This holds for its
random candidates too. A few proposals are not constrained, in case the model is wrong.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.search.gaussian_process import Array, GaussianProcess
from sweeps.search.record_searcher import Propose
from sweeps.search.representatives import representatives
from sweeps.space.encoding import Encoding
from sweeps.space.point import Point, Space

LIKELY = 0.95
"""Probability with which a proposal fits, at least."""
FREE_SHARE = 0.05
"""Of the proposals that may lie anywhere."""
MOST_TRIALS = 200
"""That the model is fitted to: its time grows with their cube."""
MOST_CANDIDATES = 1000
"""That are looked at for one proposal."""
LEAST_AT_ONCE, MOST_AT_ONCE = 4, 64
"""Candidates that are looked at together; at first few, as those of a density take long to draw."""
REFIT = 1.15
"""The hyperparameters of the model are fitted again when there are so many times the trials."""


class Feasibility:
    """What is known of where trials fit; the record alone decides."""

    def __init__(self, config: SweepConfig, space: Space, record: Record) -> None:
        self._seed, self._space, self._record = config.seed, space, record
        self._rows: dict[int, Array | None] = {}
        """Coordinates by index of a trial; None of one that is not a point of the space."""
        self._fitted: tuple[list[int], Array] = [], np.empty(0)
        """The trials to which the hyperparameters of the model were fitted, and these."""

    def constrained(self, propose: Propose) -> Propose:
        """The candidates of a search, those first that are likely to fit."""

        def proposed(number: int) -> Iterator[Point]:
            candidates = propose(number)
            generator = np.random.default_rng(np.random.SeedSequence((self._seed, number, 2)))
            if (model := self._model()) is None or generator.random() < FREE_SHARE:
                return candidates
            return self._likely_first(candidates, model)

        return proposed

    @cached_property
    def _encoding(self) -> Encoding:
        return Encoding.of(self._space)

    def _likely_first(self, candidates: Iterator[Point], model: GaussianProcess) -> Iterator[Point]:
        others: list[tuple[float, Point]] = []
        looked_at, at_once = itertools.islice(candidates, MOST_CANDIDATES), LEAST_AT_ONCE
        while points := list(itertools.islice(looked_at, at_once)):
            at_once = min(2 * at_once, MOST_AT_ONCE)
            rows = self._encoding.features(np.array([self._encoding.coordinates(p) for p in points]))
            for probability, point in zip(_probabilities(model, rows), points, strict=True):
                if probability >= LIKELY:
                    yield point
                else:
                    others.append((probability, point))
        yield from (point for _, point in sorted(others, key=lambda other: -other[0]))
        yield from candidates

    def _model(self) -> GaussianProcess | None:
        """Of all trials of which it is known; None while all fit, or none does."""
        fits = {index: fit for index, trial in enumerate(self._trials) if (fit := _fits(trial)) is not None}
        known = [index for index in fits if self._row(index) is not None]
        if len({fits[index] for index in known}) < 2:
            return None
        first = 2
        while (larger := math.ceil(first * REFIT)) <= len(known):
            first = larger
        if self._fitted[0] != known[:first]:
            fitted = GaussianProcess(*self._data(known[:first], fits))
            self._fitted = known[:first], fitted.hyperparameters
        return GaussianProcess(*self._data(known, fits), self._fitted[1])

    @property
    def _trials(self) -> list[TrialRow]:
        return [*self._record.earlier.trials, *self._record.searched]

    def _row(self, index: int) -> Array | None:
        """The coordinates of a trial."""
        if index not in self._rows:
            self._rows[index] = None
            with contextlib.suppress(LookupError, ValueError):
                self._rows[index] = self._encoding.coordinates(self._trials[index].point)
        return self._rows[index]

    def _data(self, known: list[int], fits: dict[int, bool]) -> tuple[Array, Array]:
        """Inputs and 0 or 1 for the model."""
        inputs = self._encoding.features(np.array([self._row(index) for index in known]))
        labels = np.array([float(fits[index]) for index in known])
        if len(known) > MOST_TRIALS:
            chosen = representatives(inputs, labels, MOST_TRIALS)
            inputs, labels = inputs[chosen], labels[chosen]
        return inputs, labels


def _fits(trial: TrialRow) -> bool | None:
    """Whether a trial fits; None where it is not known."""
    if trial.status == "infeasible":
        return False
    return True if trial.epochs else None


def _probabilities(model: GaussianProcess, inputs: Array) -> Array:
    """[points], that each fits."""
    from scipy.special import ndtr  # a second of imports, with the model's

    mean, deviation = model.predict(inputs)
    found: Array = ndtr((mean - 0.5) / np.maximum(deviation, 1e-9))
    return found
