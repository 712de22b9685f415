"""Prepared rows that are numbered."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sweeps.training.data import shards
from sweeps.training.data.datamodule import PreparedRows
from sweeps.training.data.shards import Column, Manifest

COLUMNS = {"image": Column("uint8", (2, 3)), "row": Column("int64"), "point": Column("float32", (4,))}


def rows_from(first: int, count: int) -> dict[str, np.ndarray[Any, Any]]:
    numbers = np.arange(first, first + count)
    return {
        "image": np.repeat(numbers % 251, 6).astype(np.uint8).reshape(count, 2, 3),
        "row": numbers.astype(np.int64),
        "point": np.repeat(numbers / 7, 4).astype(np.float32).reshape(count, 4),
    }


def reader(folder: Path, seed: int = 0, is_shuffled: bool = True, window_rows: int = 8) -> PreparedRows:
    window = window_rows if is_shuffled else None
    return PreparedRows(folder, Manifest.read(folder), "train", seed=seed, window_rows=window)


def numbers_of(batches: list[dict[str, torch.Tensor]]) -> list[list[int]]:
    return [batch["row"].tolist() for batch in batches]


@contextmanager
def row_groups_of(rows: int) -> Iterator[None]:
    """Write row groups of so many rows."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shards, "GROUP_ROWS", (rows, rows))
        yield


def data_set(folder: Path, *shard_rows: int, group_rows: int = 5, split: str = "train") -> Manifest:
    """Rows numbered from 0 on, in shards of so many."""
    firsts = itertools.accumulate(shard_rows, initial=0)
    with row_groups_of(group_rows):
        written = [
            shards.write_shard(folder, f"{split}-{number:05d}.parquet", rows_from(first, rows), COLUMNS)
            for number, (first, rows) in enumerate(zip(firsts, shard_rows, strict=False))
        ]
    manifest = Manifest(columns=COLUMNS, splits={split: written})
    manifest.write(folder)
    return manifest


def block(first: int, rows: int) -> dict[str, Any]:
    numbers = np.arange(first, first + rows)
    return {
        "row": numbers,
        "image": np.repeat(numbers % 251, 6).astype(np.uint8).reshape(rows, 2, 3),
        "is_odd": numbers % 2 == 1,
        "half": (numbers / 2).astype(np.float16),
    }
