"""Which points of a space are feasible, as far as the trials so far have shown: they fit in memory, and meet
the constraints.

A Gaussian process over hyperparameters has 1 for each trial that trained an epoch, and 0 for each that is
infeasible. A search that has a model takes the best of its candidates that is likely enough to fit, as
Gelbart et al., 2014 (https://arxiv.org/abs/1403.5607), constrain an unknown function. This holds for its
random candidates too. One of 20 proposals is not constrained, in case the model is wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from sweeps.search.gaussian_process import Array, GaussianProcess, RefittedGaussianProcess
from sweeps.search.known_trials import KnownTrials
from sweeps.space.point import Point

LEAST_PROBABILITY = 0.95
"""With which a proposal fits."""


class Feasibility:
    """What is known of where trials fit; the record alone decides."""

    def __init__(self, seed: int, known: KnownTrials) -> None:
        self._seed, self._known = seed, known
        self._growing = RefittedGaussianProcess(2, self._data)

    def likely_first(self, number: int, candidates: Iterator[Point]) -> Iterator[Point]:
        """The candidates for the trial of a number, those first that are likely to fit."""
        generator = np.random.default_rng(np.random.SeedSequence((self._seed, number, 2)))
        if (model := self._model()) is None or generator.random() < 0.05:
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

    def _model(self) -> GaussianProcess | None:
        """Of all trials of which it is known; None while all fit, or none does."""
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
