"""The largest micro-batch that fits, with a fake limit; that the effective batch stays as it is."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.batch_size import MicroBatch, largest_that_fits, split, with_margin
from training.config import CannotTrain


@given(limit=st.integers(1, 5000), most=st.integers(1, 5000))
def test_the_largest_that_fits_is_found_in_few_tries_and_none_above_the_most(limit: int, most: int) -> None:
    tried: list[int] = []

    def fits(rows: int) -> bool:
        tried.append(rows)
        return rows <= limit

    assert largest_that_fits(fits, most) == min(limit, most)
    assert max(tried) <= most
    assert len(tried) == len(set(tried)) <= 2 * math.log2(most) + 3


def test_a_model_that_does_not_fit_by_itself_is_said_to_be_too_large() -> None:
    with pytest.raises(MemoryError, match="not even a micro-batch of one row fits: the model itself"):
        largest_that_fits(lambda rows: False, 64)


@given(per_worker=st.integers(1, 2000), workers=st.integers(1, 8), fitting=st.integers(1, 3000))
def test_the_effective_batch_stays_what_params_says(per_worker: int, workers: int, fitting: int) -> None:
    found = split(per_worker * workers, workers, fitting)
    assert found.rows * found.accumulation * workers == per_worker * workers
    assert found.rows <= fitting
    fewer = [n for n in range(1, found.accumulation) if per_worker % n == 0]
    assert all(per_worker // n > fitting for n in fewer)


def test_a_batch_that_can_not_be_shared_out_is_refused() -> None:
    with pytest.raises(CannotTrain, match="batch_size 33: 2 workers share it, so it must be a multiple of 2"):
        split(33, 2, 64)
    assert split(64, 2, 20) == MicroBatch(16, 2)


@pytest.mark.parametrize(("rows", "left"), [(1, 1), (2, 1), (10, 9), (1000, 900)])
def test_some_room_is_left(rows: int, left: int) -> None:
    assert with_margin(rows) == left
