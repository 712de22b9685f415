"""A Gaussian process of scores over points and epochs, by scikit-learn.

One model of all rungs: it has the logarithm of the epoch as one more input, so that what was trained for few
epochs tells something of what more of them would give (as in Swersky et al., 2013,
https://papers.nips.cc/paper/2013/hash/f33ba15effa5c10e873bf3842afb46a6-Abstract.html, with a Matern kernel in
place of one per task).
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

Array = npt.NDArray[np.float64]
TYPICAL_LENGTH, SPREAD_OF_LENGTHS = 0.6, 0.8
"""Of the length scales, in units of a range: their median, and the standard deviation of their logarithm."""
TYPICAL_NOISE, SPREAD_OF_NOISES = 0.01, 1.5
"""The same of the noise, as a share of the variance of the scores."""
WORST = 4.0
"""Scores count as at least so far below the median as WORST times the distance of the best from it: one that
exploded must not hide the differences between the others."""
MOST_RESULTS = 200
"""That a model is fitted to: its time grows with their cube."""
REFIT_FACTOR = 1.15
"""The hyperparameters of a model are fitted again when there are so many times the results."""
Known = TypeVar("Known")


class GaussianProcess:
    """The model of scores, larger is better.

    Args:
        inputs: [results, inputs].
        scores: [results], finite.
        hyperparameters: of an earlier fit to fewer results; None: they are fitted.
    """

    def __init__(self, inputs: Array, scores: Array, hyperparameters: Array | None = None) -> None:
        from sklearn.gaussian_process import GaussianProcessRegressor  # a second, and only with this search
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

        _limit_threads()
        lengths = np.full(inputs.shape[1], TYPICAL_LENGTH)
        kernel = ConstantKernel(1.0, (0.05, 20.0)) * Matern(lengths, (0.05, 20.0), nu=2.5)
        kernel += WhiteKernel(TYPICAL_NOISE, (1e-4, 1.0))
        optimizer: Any = _most_likely
        if hyperparameters is not None:
            kernel, optimizer = kernel.clone_with_theta(hyperparameters), None
        self._model = GaussianProcessRegressor(kernel, alpha=1e-6, optimizer=optimizer, normalize_y=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a hyperparameter at its bound
            self._model.fit(inputs, clipped(scores))
        self.hyperparameters: Array = self._model.kernel_.theta

    def predict(self, inputs: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the score, [points] each."""
        mean, deviation = self._model.predict(inputs, return_std=True)
        return mean, deviation


@functools.cache
def _limit_threads() -> None:
    """Beside trials that keep the cores busy, several threads took up to 500 ms a proposal; one takes 10."""
    threadpool_limits(1, "blas")


def clipped(scores: Array) -> Array:
    """Scores without outliers on the bad side."""
    best, quantiles = scores.max(), np.quantile(scores, [0.5, 0.25, 0.1, 0.0])
    middle = next((q for q in quantiles if q < best), best)  # the median, where it is not the best itself
    least: Array = np.maximum(scores, middle - WORST * (best - middle))
    return least


def _most_likely(
    negative_likelihood: Callable[[Array], tuple[float, Array]], start: Array, bounds: Array
) -> tuple[Array, float]:
    """The most likely hyperparameters with log-normal priors: few results alone would say too much.

    Args:
        negative_likelihood: of the logarithms of the constant, the lengths and the noise; and its gradient.
        start: these logarithms.
        bounds: [hyperparameters, 2].
    """
    from scipy.optimize import minimize

    typical = np.log([1.0, *[TYPICAL_LENGTH] * (len(start) - 2), TYPICAL_NOISE])
    spread = np.array([1.0, *[SPREAD_OF_LENGTHS] * (len(start) - 2), SPREAD_OF_NOISES])

    def loss(logarithms: Array) -> tuple[float, Array]:
        value, gradient = negative_likelihood(logarithms)
        away = (logarithms - typical) / spread
        return value + (away**2).sum() / 2, gradient + away / spread

    most = {"maxiter": 25}  # after more steps proposals are no better
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=most)
    return found.x, found.fun


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
