"""The results that a model is fitted to when there are more than it can take."""

from __future__ import annotations

import numpy as np

from sweeps.search.gaussian_process import representatives

EPOCHS = np.repeat([1, 3, 9], [300, 100, 4])
POINTS = np.random.default_rng(0).random((len(EPOCHS), 2))


def test_each_rung_has_its_share_and_what_one_does_not_need_goes_to_the_others() -> None:
    chosen = representatives(POINTS, EPOCHS, 60)
    assert np.unique(EPOCHS[chosen], return_counts=True)[1].tolist() == [28, 28, 4]
    assert len(representatives(POINTS, EPOCHS, 250)) == 250


def test_all_are_taken_in_their_order_where_there_is_room() -> None:
    assert representatives(POINTS, EPOCHS, len(EPOCHS)) == [*range(len(EPOCHS))]


def test_half_of_a_rung_are_its_last_results() -> None:
    chosen = representatives(POINTS, EPOCHS, 60)
    assert {*range(286, 300), *range(386, 400)} <= {*chosen}


def test_a_few_old_results_far_from_all_others_stay() -> None:
    points = 0.9 + 0.1 * POINTS
    points[[3, 17, 40]] = [[0, 0], [0, 1], [1, 0]]
    assert {3, 17, 40} <= {*representatives(points, EPOCHS, 20)}


def test_a_result_is_taken_once() -> None:
    chosen = representatives(POINTS, EPOCHS, 90)
    assert len({*chosen}) == 90
