"""The largest micro-batch that fits, with a fake limit; that the effective batch stays as it is."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.common.errors import CannotTrain
from sweeps.training.batches import (
    MicroBatch,
    largest_that_fits,
    split,
    with_margin,
)


@given(limit=st.integers(0, 5000), share=st.integers(1, 3000), workers=st.integers(1, 4))
def test_the_fewest_micro_batches_that_fit_are_found_in_few_tries(
    limit: int, share: int, workers: int
) -> None:
    tried: list[int] = []

    def fits(rows: int) -> bool:
        tried.append(rows)
        return rows <= limit

    choices = [rows for rows in range(1, share + 1) if share % rows == 0]
    fitting = [rows for rows in choices if with_margin(rows) <= limit]
    if not fitting:
        with pytest.raises(MemoryError, match="not even a micro-batch of one row fits: the model itself"):
            largest_that_fits(fits, share * workers, workers)
    else:
        found = largest_that_fits(fits, share * workers, workers)
        assert found == MicroBatch(fitting[-1], share // fitting[-1])
    assert len(tried) == len(set(tried)) <= math.log2(len(choices)) + 2


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


@pytest.mark.parametrize(("rows", "fitting"), [(1, 1), (2, 3), (9, 10), (10, 11), (11, 13), (1000, 1100)])
def test_some_room_is_left(rows: int, fitting: int) -> None:
    assert with_margin(rows) == fitting
