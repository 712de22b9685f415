"""Batches: every row once, for any ranks, workers and batch sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.common.errors import CannotTrain
from sweeps.training.data.sampler import Batches
from tests.sweeps.training.data.numbered import numbers_of, reader, rows_from


@settings(max_examples=300, deadline=None)
@given(
    rows=st.integers(1, 300), ranks=st.integers(1, 9), batch_size=st.integers(1, 70), drop_last=st.booleans()
)
def test_all_ranks_have_as_many_batches_and_every_row_is_in_one(
    rows: int, ranks: int, batch_size: int, drop_last: bool
) -> None:
    if rows < ranks:
        with pytest.raises(
            CannotTrain, match=f"{rows} rows for {ranks} workers: each worker needs at least one row"
        ):
            Batches(rows, batch_size, rank=0, ranks=ranks)
        return
    shares = [Batches(rows, batch_size, rank=rank, ranks=ranks, drop_last=drop_last) for rank in range(ranks)]
    found = [list(share) for share in shares]
    assert {len(batches) for batches in found} == {len(share) for share in shares}
    assert len({len(share) for share in shares}) == 1
    positions = [p for batches in found for batch in batches for p in range(batch.first, batch.last)]
    sizes = {batch.last - batch.first for batches in found for batch in batches}
    assert len(set(positions)) == len(positions)
    assert set(positions) <= set(range(rows))
    if drop_last:
        assert {share.rows for share in shares} == {rows // ranks}
        assert sizes <= {batch_size}
        assert rows - len(positions) < ranks * (batch_size + 1)
    else:
        assert sum(share.rows for share in shares) == rows
        assert sorted(positions) == list(range(rows))
        assert 1 <= min(sizes) <= max(sizes) <= max(batch_size, 2 if rows % ranks else 1)


@settings(max_examples=60, deadline=None)
@given(
    batch_size=st.integers(1, 70),
    ranks=st.integers(1, 5),
    seed=st.integers(0, 3),
    epoch=st.integers(0, 5),
    window_rows=st.integers(1, 100),
    is_shuffled=st.booleans(),
)
def test_every_row_is_read_once_in_an_epoch(
    folder: Path, batch_size: int, ranks: int, seed: int, epoch: int, window_rows: int, is_shuffled: bool
) -> None:
    read = []
    for rank in range(ranks):
        rows, batches = (
            reader(folder, seed, is_shuffled, window_rows),
            Batches(64, batch_size, rank=rank, ranks=ranks),
        )
        batches.set_epoch(epoch)
        read += [rows[wanted] for wanted in batches]
    numbers = [number for batch in numbers_of(read) for number in batch]
    assert sorted(numbers) == list(range(64))
    assert is_shuffled or numbers == list(range(64))
    for batch in read:
        expected = rows_from(0, 64)
        for name, values in batch.items():
            assert torch.equal(values, torch.from_numpy(expected[name][batch["row"].numpy()]))
