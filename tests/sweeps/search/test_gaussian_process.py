"""The model of scores: it predicts, tells what it does not know, and is not misled by outliers."""

from __future__ import annotations

import numpy as np
import pytest

from sweeps.search.gaussian_process import WORST, GaussianProcess, clipped

GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.random((60, 3))
SCORES = np.sin(3 * INPUTS[:, 0]) + INPUTS[:, 1]
"""The third input has no effect."""


def test_it_predicts_what_it_has_not_seen() -> None:
    model = GaussianProcess(INPUTS[:50], SCORES[:50])
    mean, deviation = model.predict(INPUTS[50:])
    assert np.abs(mean - SCORES[50:]).max() < 0.1
    assert (np.abs(mean - SCORES[50:]) < 4 * deviation + 0.01).all()


def test_it_knows_less_where_there_are_no_results() -> None:
    left = INPUTS[INPUTS[:, 0] < 0.5]
    model = GaussianProcess(left, np.sin(3 * left[:, 0]) + left[:, 1])
    _, deviation = model.predict(np.array([[0.25, 0.5, 0.5], [1.0, 0.5, 0.5]]))
    assert deviation[1] > 2 * deviation[0]


def test_hyperparameters_are_taken_over_as_they_are() -> None:
    fitted = GaussianProcess(INPUTS[:30], SCORES[:30])
    again = GaussianProcess(INPUTS, SCORES, fitted.hyperparameters)
    np.testing.assert_array_equal(again.hyperparameters, fitted.hyperparameters)
    assert len(fitted.hyperparameters) == 2 + INPUTS.shape[1]


def test_an_input_without_effect_gets_a_long_scale() -> None:
    lengths = GaussianProcess(INPUTS, SCORES).hyperparameters[1:-1]
    assert lengths[2] == max(lengths)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_results_and_equal_ones_are_enough(count: int) -> None:
    mean, deviation = GaussianProcess(INPUTS[:count], np.full(count, 0.5)).predict(INPUTS)
    assert mean == pytest.approx(0.5)
    assert np.isfinite(deviation).all()


def test_a_score_that_exploded_does_not_hide_the_others() -> None:
    scores = np.array([0.0, 1.0, 2.0, 3.0, -1e9])
    assert clipped(scores).tolist() == [0, 1, 2, 3, 1 - WORST * 2]
    misled = SCORES.copy()
    misled[7] = -1e9
    mean, _ = GaussianProcess(INPUTS[:50], misled[:50]).predict(INPUTS[50:])
    assert np.corrcoef(mean, SCORES[50:])[0, 1] > 0.9


def test_scores_still_differ_where_more_than_half_of_them_are_the_best() -> None:
    scores = np.array([1.0, 1.0, 1.0, 0.9, 0.5])
    assert clipped(scores).tolist() == pytest.approx([1, 1, 1, 0.9, 0.9 - WORST * 0.1])
    assert clipped(np.array([1.0] * 99 + [0.5])).min() == 0.5
