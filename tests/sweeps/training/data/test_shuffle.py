"""Parts and shards: rows in are rows out, in one order of the seed; broken rows are refused."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.training.data import shards, shuffle, staging
from sweeps.training.data.shards import Manifest
from sweeps.training.data.staging import BadRows, PartWriter


def block(first: int, rows: int) -> dict[str, Any]:
    numbers = np.arange(first, first + rows)
    return {
        "row": numbers,
        "image": np.repeat(numbers % 251, 6).astype(np.uint8).reshape(rows, 2, 3),
        "is_odd": numbers % 2 == 1,
        "half": (numbers / 2).astype(np.float16),
    }


def write_part(path: Path, first: int, sizes: list[int]) -> int:
    """A part of blocks of these sizes; the first row that is not in it."""
    writer = PartWriter(path)
    ends = np.cumsum([first, *sizes])
    for payload, _ in staging.encoded(block(int(end), rows) for end, rows in zip(ends, sizes, strict=False)):
        writer.add(payload)
    writer.commit()
    assert writer.rows == sum(sizes)
    return int(ends[-1])


def read(folder: Path, written: list[shards.Shard]) -> dict[str, Any]:
    columns = shards.columns_of(block(0, 1))
    tables = [shards.open_shard(folder, shard, columns)[0].read() for shard in written]
    arrays = [shards.to_arrays(table, columns) for table in tables]
    return {name: np.concatenate([each[name] for each in arrays]) for name in columns}


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
        patched.setattr(shuffle, "SHARD_BYTES", shard_bytes)
        patched.setattr(shuffle, "GROUP_ROWS", (group_rows, group_rows))
        patched.setattr(staging, "BLOCK_BYTES", block_bytes)
        folder, first = Path(name), 0
        for number, of_part in enumerate(sizes):
            first = write_part(folder / f"{number}.arrow", first, of_part)
        paths = [folder / f"{number}.arrow" for number in range(len(sizes))]
        columns = staging.columns_of(paths[0])
        assert columns == shards.columns_of(block(0, 1))
        written = list(shuffle.shuffled(folder, "train", paths, columns, (seed, 0)))
        found = read(folder, written)
        assert sorted(found["row"]) == list(range(first))
        expected = block(0, first)
        for column, values in found.items():
            assert np.array_equal(values, expected[column][found["row"]]), column
        assert list(found["row"]) == list(np.random.default_rng((seed, 0)).permutation(first))
        assert max(shard.rows for shard in written) - min(shard.rows for shard in written) <= 1


def test_the_order_follows_from_the_seed_alone(tmp_path: Path) -> None:
    write_part(tmp_path / "a.arrow", 0, [30, 30])
    columns = staging.columns_of(tmp_path / "a.arrow")

    def order(seed: tuple[int, ...], folder: str) -> list[int]:
        written = list(shuffle.shuffled(tmp_path / folder, "val", [tmp_path / "a.arrow"], columns, seed))
        return list(read(tmp_path / folder, written)["row"])

    assert order((0, 1), "first") == order((0, 1), "second")
    assert order((0, 1), "first") != order((1, 1), "third")
    assert order((0, 1), "first") != list(range(60))


def test_there_are_some_shards_and_groups_that_read_fast(tmp_path: Path) -> None:
    numbers = np.arange(10_000)
    writer = PartWriter(tmp_path / "a.arrow")
    for payload, _ in staging.encoded([{"row": numbers}]):
        writer.add(payload)
    writer.commit()
    columns = staging.columns_of(tmp_path / "a.arrow")
    written = list(shuffle.shuffled(tmp_path, "train", [tmp_path / "a.arrow"], columns, (0,)))
    assert [shard.rows for shard in written] == [5000, 5000]
    Manifest(columns=columns, splits={"train": written}).write(tmp_path)
    assert shards.checksum_faults(tmp_path, Manifest.read(tmp_path)) == {}


def test_a_part_that_was_not_committed_is_not_there(tmp_path: Path) -> None:
    writer = PartWriter(tmp_path / "a.arrow")
    for payload, _ in staging.encoded([block(0, 5)]):
        writer.add(payload)
    assert not (tmp_path / "a.arrow").exists()
    writer.discard()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([], "prepare yields no row"),
        ([[1, 2]], r"prepare yields list, not column -> array \[rows, ...\]"),
        ([{}], "prepare yields dict, not column"),
        ([{"a": np.array(["x"])}], "column a has type <U1: it must hold numbers"),
        ([{"a": np.array([None])}], "column a has type object: it must hold numbers"),
        (
            [{"a": np.arange(3, dtype=">i4")}],
            "column a has type >i4: it must hold numbers in this PC's byte order",
        ),
        ([{"a": np.float32(1)}], r"column a is one value, not an array \[rows, ...\]"),
        ([{"a": np.arange(3), "b": np.arange(4)}], "columns of one shard have 3, 4 rows"),
        ([{"a": np.arange(3)}, {"a": np.arange(3.0)}], "rows are .*float64.*, the data set has .*int64"),
    ],
)
def test_what_is_no_block_of_rows_is_refused(blocks: list[Any], expected: str) -> None:
    with pytest.raises(BadRows, match=expected):
        list(staging.encoded(blocks))
