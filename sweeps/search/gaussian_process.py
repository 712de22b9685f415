"""A Gaussian process of scores over points and epochs, by scikit-learn.

One model of all rungs: it has the logarithm of the epoch as one more input, so that what was trained for few
epochs tells something of what more of them would give (as in Swersky et al., 2013,
https://papers.nips.cc/paper/2013/hash/f33ba15effa5c10e873bf3842afb46a6-Abstract.html, with a Matern kernel in
place of one per task).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
TYPICAL_LENGTH, SPREAD_OF_LENGTHS = 0.6, 0.8
"""Of the length scales, in units of a range: their median, and the standard deviation of their logarithm."""
TYPICAL_NOISE, SPREAD_OF_NOISES = 0.01, 1.5
"""The same of the noise, as a share of the variance of the scores."""
WORST = 4.0
"""Scores count as at least so far below the median as WORST times the distance of the best from it: one that
exploded must not hide the differences between the others."""
QUANTILES = 0.5, 0.25, 0.1, 0.0
"""The median, and what is in its place where it is the best score itself: the first of them that is below."""
STEPS = 25
"""Of the optimizer; after more of them proposals are no better."""


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


def clipped(scores: Array) -> Array:
    """Scores without outliers on the bad side."""
    best = scores.max()
    middle = next((q for q in np.quantile(scores, QUANTILES) if q < best), best)
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

    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS})
    return found.x, found.fun
