"""A Gaussian process of scores over points and epochs.

One model of all rungs: it has the logarithm of the epoch as one more input, so that what was trained for few
epochs tells something of what more of them would give (as in Swersky et al., 2013,
https://papers.nips.cc/paper/2013/hash/f33ba15effa5c10e873bf3842afb46a6-Abstract.html, with a Matern kernel in
place of one per task). It is the model of scikit-learn's `GaussianProcessRegressor` with this kernel, in a
third of its time with few results, and without the second that importing it takes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

Array = npt.NDArray[np.float64]
TYPICAL_LENGTH, SPREAD_OF_LENGTHS = 1.0, 0.8
"""Of the length scales, in units of a range: their median, and the standard deviation of their logarithm."""
TYPICAL_NOISE, SPREAD_OF_NOISES = 0.01, 1.5
"""The same of the noise, as a share of the variance of the scores."""
JITTER = 1e-6
"""Added to the noise, so that equal inputs do no harm."""
WORST = 4.0
"""Scores count as at least so far below the median as WORST times the distance of the best from it: one that
exploded must not hide the differences between the others."""
MOST_RESULTS = 200
"""That a model is fitted to: its time grows with their cube."""
REFIT_FACTOR = 1.15
"""The hyperparameters of a model are fitted again when there are so many times the results."""
Known = TypeVar("Known")


class GaussianProcess:
    """The model of scores, larger is better: a Matern kernel (nu = 5/2) and noise.

    Args:
        inputs: [results, inputs].
        scores: [results], finite.
        hyperparameters: of an earlier fit to fewer results; None: they are fitted.
    """

    def __init__(self, inputs: Array, scores: Array, hyperparameters: Array | None = None) -> None:
        scores = clipped(scores)
        self._mean, self._scale = scores.mean(), scores.std()
        if self._scale < 1e-14:  # all are equal
            self._scale = 1.0
        self._inputs, self._scores = inputs, (scores - self._mean) / self._scale
        self.hyperparameters = self._most_likely() if hyperparameters is None else hyperparameters
        """The logarithms of the variance, of the length scales and of the noise."""
        covariance, _ = self._covariance(self.hyperparameters)
        self._root, self._weights = self._solved(covariance)

    def predict(self, inputs: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the score, [points] each."""
        variance, *_, noise = np.exp(self.hyperparameters)
        shared = variance * _matern(_distances(self.hyperparameters, inputs, self._inputs))
        known = _linear_algebra().solve_triangular(self._root, shared.T, lower=True, check_finite=False)
        left = variance + noise - np.einsum("ij,ij->j", known, known)
        deviation = np.sqrt(np.maximum(left, 0))
        return self._mean + self._scale * (shared @ self._weights), self._scale * deviation

    def believe(self, inputs: Array) -> None:
        """Take the scores that it predicts for these inputs as known: it is sure of them before they are (the
        "Kriging believer" of Ginsbourger et al., 2010, https://doi.org/10.1007/978-3-642-10701-6_6)."""
        mean, _ = self.predict(inputs)
        self._inputs = np.concatenate([self._inputs, inputs])
        self._scores = np.concatenate([self._scores, (mean - self._mean) / self._scale])
        self._root, self._weights = self._solved(self._covariance(self.hyperparameters)[0])

    def _covariance(self, hyperparameters: Array) -> tuple[Array, Array]:
        """[results, results]; and their distances."""
        variance, *_, noise = np.exp(hyperparameters)
        distances = _distances(hyperparameters, self._inputs, self._inputs)
        covariance = variance * _matern(distances)
        covariance[np.diag_indices_from(covariance)] += noise + JITTER
        return covariance, distances

    def _solved(self, covariance: Array) -> tuple[Array, Array]:
        """Its Cholesky factor, and the weights of the scores."""
        root = _linear_algebra().cholesky(covariance, lower=True, check_finite=False)
        return root, _linear_algebra().cho_solve((root, True), self._scores, check_finite=False)

    def _most_likely(self) -> Array:
        """The most likely hyperparameters with log-normal priors: few results alone would say too much."""
        from scipy.optimize import minimize  # a fifth of a second, and only with this search

        lengths = self._inputs.shape[1]
        typical = np.log([1.0, *[TYPICAL_LENGTH] * lengths, TYPICAL_NOISE])
        spread = np.array([1.0, *[SPREAD_OF_LENGTHS] * lengths, SPREAD_OF_NOISES])
        bounds = np.log([*[(0.05, 20.0)] * (1 + lengths), (1e-4, 1.0)])

        def loss(logarithms: Array) -> tuple[float, Array]:
            value, gradient = self._negative_likelihood(logarithms)
            away = (logarithms - typical) / spread
            return value + (away**2).sum() / 2, gradient + away / spread

        most = {"maxiter": 25}  # after more steps proposals are no better
        found: Array = minimize(loss, typical, jac=True, method="L-BFGS-B", bounds=bounds, options=most).x
        return found

    def _negative_likelihood(self, hyperparameters: Array) -> tuple[float, Array]:
        """Without its constant; and its gradient."""
        variance, *_, noise = np.exp(hyperparameters)
        covariance, distances = self._covariance(hyperparameters)
        root, weights = self._solved(covariance)
        value = self._scores @ weights / 2 + np.log(root.diagonal()).sum()
        inverse = _linear_algebra().cho_solve((root, True), np.eye(len(root)), check_finite=False)
        outer = (inverse - np.outer(weights, weights)) / 2  # the derivative by the covariance
        trace = outer.trace()
        by_variance = (outer * covariance).sum() - trace * (noise + JITTER)
        by_square = variance * outer * (1 + distances) * np.exp(-distances) * -5 / 6
        inputs = self._inputs / np.exp(hyperparameters[1:-1])
        by_lengths = 4 * ((inputs * (by_square @ inputs)).sum(axis=0) - by_square.sum(axis=0) @ inputs**2)
        return value, np.array([by_variance, *by_lengths, trace * noise])


def _distances(hyperparameters: Array, rows: Array, others: Array) -> Array:
    """[rows, others], in length scales, times the root of 5."""
    rows, others = (inputs / np.exp(hyperparameters[1:-1]) for inputs in (rows, others))
    squares = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * rows @ others.T
    found: Array = np.sqrt(5 * np.maximum(squares, 0))
    return found


def _matern(distances: Array) -> Array:
    """The correlation at such distances."""
    found: Array = (1 + distances + distances**2 / 3) * np.exp(-distances)
    return found


@functools.cache
def _linear_algebra() -> Any:
    """SciPy's, which takes a third of a second to import; with one thread. Beside trials that keep the cores
    busy, several threads took up to 500 ms a proposal; one takes 10."""
    import scipy.linalg

    threadpool_limits(1, "blas")
    return scipy.linalg


def clipped(scores: Array) -> Array:
    """Scores without outliers on the bad side."""
    best, quantiles = scores.max(), np.quantile(scores, [0.5, 0.25, 0.1, 0.0])
    middle = next((q for q in quantiles if q < best), best)  # the median, where it is not the best itself
    least: Array = np.maximum(scores, middle - WORST * (best - middle))
    return least


class RefittedGaussianProcess(Generic[Known]):
    """The model of results that become more; its hyperparameters follow at times.

    Args:
        least: number of results for the first model.
        data: of results, the inputs [results, inputs], the scores, and the strata of `representatives`.
    """

    def __init__(self, least: int, data: Callable[[Sequence[Known]], tuple[Array, Array, Array]]) -> None:
        self._least, self._data = least, data
        self._fitted_to: Sequence[Known] = ()
        self._hyperparameters = np.empty(0)

    def fit(self, known: Sequence[Known]) -> GaussianProcess:
        """Of all results, with hyperparameters that were fitted to the first ones, at most a few less."""
        count = self._least
        while (larger := math.ceil(count * REFIT_FACTOR)) <= len(known):
            count = larger
        if self._fitted_to != known[:count]:
            self._fitted_to = known[:count]
            self._hyperparameters = GaussianProcess(*self._represented(known[:count])).hyperparameters
        return GaussianProcess(*self._represented(known), self._hyperparameters)

    def _represented(self, known: Sequence[Known]) -> tuple[Array, Array]:
        inputs, scores, strata = self._data(known)
        if len(scores) > MOST_RESULTS:
            chosen = representatives(inputs, strata, MOST_RESULTS)
            inputs, scores = inputs[chosen], scores[chosen]
        worst = scores[np.isfinite(scores)].min(initial=0.0 if np.isinf(scores).all() else math.inf)
        return inputs, np.maximum(scores, worst)


def representatives(points: Array, epochs: Array, most: int) -> list[int]:
    """At most so many results, ascending. Each rung has an equal share; what one does not need goes to those
    below. So bad trials, which are scored at the first rung alone, stay known.

    Args:
        points: [results, features], in the order of the reports at each rung.
        epochs: [results], or another number by which they are divided into strata.
        most: number of results.
    """
    found: list[int] = []
    for below, epoch in reversed([*enumerate(np.unique(epochs))]):
        rows, share = np.flatnonzero(epochs == epoch), (most - len(found)) // (below + 1)
        chosen = range(len(rows)) if len(rows) <= share else _spread(points[rows], share)
        found += rows[chosen].tolist()
    return sorted(found)


def _spread(points: Array, count: int) -> list[int]:
    """Half are the last ones; each of the others is the furthest from all that were chosen before it."""
    found: list[int] = []
    distances = np.full(len(points), np.inf)
    for nth in range(count):
        row = len(points) - 1 - nth if nth < count // 2 else int(distances.argmax())
        found.append(row)
        away = points - points[row]
        distances = np.minimum(distances, np.einsum("ij,ij->i", away, away))
    return found
