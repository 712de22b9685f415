"""Parts: blocks of rows, checked and written whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweeps.training.data import ray_pipeline
from sweeps.training.data.ray_pipeline import BadRows, Fault, PartWriter
from tests.sweeps.training.data.numbered import block


def test_a_part_that_was_not_committed_is_not_there(tmp_path: Path) -> None:
    writer = PartWriter(tmp_path / "a.arrow")
    for payload in ray_pipeline.encode_blocks([block(0, 5)]):
        writer.add(payload)
    assert not (tmp_path / "a.arrow").exists()
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_blocks_that_end_without_an_end_are_not_all_of_a_file() -> None:
    """So they do where a process died, and the one after it yielded less."""
    assert isinstance(ray_pipeline._next_of(iter(())), Fault)


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
        list(ray_pipeline.encode_blocks(blocks))
