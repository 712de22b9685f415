"""Shards of parts: rows in are rows out, in one order of the seed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.training.data import preparation, ray_pipeline, shards
from sweeps.training.data.ray_pipeline import PartWriter
from sweeps.training.data.shards import Manifest
from tests.sweeps.training.data.numbered import block


def write_part(path: Path, first: int, sizes: list[int]) -> int:
    """A part of blocks of these sizes; the first row that is not in it."""
    writer = PartWriter(path)
    ends = np.cumsum([first, *sizes])
    for payload in ray_pipeline.encode_blocks(
        block(int(end), rows) for end, rows in zip(ends, sizes, strict=False)
    ):
        writer.add(payload)
    writer.commit()
    return int(ends[-1])


def read(folder: Path, written: list[shards.Shard]) -> dict[str, Any]:
    columns = shards.columns_of(block(0, 1))
    tables = [pq.read_table(folder / shard.file).combine_chunks() for shard in written]
    arrays = [shards.to_arrays(table.to_batches()[0], columns) for table in tables]
    return {name: np.concatenate([each[name] for each in arrays]) for name in columns}


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=4), min_size=1, max_size=6),
    seed=st.integers(0, 5),
    shard_bytes=st.integers(300, 3000),
    group_rows=st.integers(1, 50),
    block_bytes=st.integers(1, 500),
)
def test_every_row_of_every_part_is_in_one_shard_once(
    sizes: list[list[int]], seed: int, shard_bytes: int, group_rows: int, block_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        patched.setattr(preparation, "SHARD_BYTES", shard_bytes)
        patched.setattr(shards, "GROUP_ROWS", (group_rows, group_rows))
        patched.setattr(ray_pipeline, "BLOCK_BYTES", block_bytes)
        folder, first = Path(name), 0
        for number, of_part in enumerate(sizes):
            first = write_part(folder / f"{number}.arrow", first, of_part)
        paths = [folder / f"{number}.arrow" for number in range(len(sizes))]
        columns = shards.columns_in(ray_pipeline.open_part(paths[0])[0].schema)
        assert columns == shards.columns_of(block(0, 1))
        written = list(preparation.shuffle(folder, "train", paths, columns, (seed, 0)))
        found = read(folder, written)
        assert sorted(found["row"]) == list(range(first))
        expected = block(0, first)
        for column, values in found.items():
            assert np.array_equal(values, expected[column][found["row"]]), column
        assert list(found["row"]) == list(np.random.default_rng((seed, 0)).permutation(first))
        assert max(shard.rows for shard in written) - min(shard.rows for shard in written) <= 1


def test_the_order_follows_from_the_seed_alone(tmp_path: Path) -> None:
    write_part(tmp_path / "a.arrow", 0, [30, 30])
    columns = shards.columns_in(ray_pipeline.open_part(tmp_path / "a.arrow")[0].schema)

    def order(seed: tuple[int, ...], folder: str) -> list[int]:
        written = list(preparation.shuffle(tmp_path / folder, "val", [tmp_path / "a.arrow"], columns, seed))
        return list(read(tmp_path / folder, written)["row"])

    assert order((0, 1), "first") == order((0, 1), "second")
    assert order((0, 1), "first") != order((1, 1), "third")
    assert order((0, 1), "first") != list(range(60))


def test_there_are_some_shards_and_groups_that_read_fast(tmp_path: Path) -> None:
    numbers = np.arange(10_000)
    writer = PartWriter(tmp_path / "a.arrow")
    for payload in ray_pipeline.encode_blocks([{"row": numbers}]):
        writer.add(payload)
    writer.commit()
    columns = shards.columns_in(ray_pipeline.open_part(tmp_path / "a.arrow")[0].schema)
    written = list(preparation.shuffle(tmp_path, "train", [tmp_path / "a.arrow"], columns, (0,)))
    assert [shard.rows for shard in written] == [5000, 5000]
    Manifest(columns=columns, splits={"train": written}).write(tmp_path)
    assert shards.checksum_faults(tmp_path, Manifest.read(tmp_path)) == {}
