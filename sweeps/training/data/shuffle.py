"""Parts to shards: all rows of a split in one seeded order, so that later reading is of whole slices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sweeps.training.data import shards
from sweeps.training.data.shards import Column, Rows, Shard
from sweeps.training.data.staging import rows_of

SHARD_BYTES = 256 * 2**20
"""Of a shard, about."""
FEWEST_SHARDS = 4
"""Of a split with at least so many row groups: other programs share a data set out by its files."""
GROUP_BYTES = 16 * 2**20
GROUP_ROWS = (1024, 8192)
"""A row group is read at once; of so many bytes, within these bounds, it was fast."""


def shuffled(
    folder: Path, split: str, parts: Sequence[Path], columns: Mapping[str, Column], seed: tuple[int, ...]
) -> Iterator[Shard]:
    """Write all rows of all parts as shards, in one seeded order of them all.

    Args:
        folder: of the data set.
        split: that they are of.
        parts: in an order that decides, with the seed, which row comes where.
        columns: of every part.
        seed: of the order.

    Raises:
        NotPrepared: a shard that was written can't be read back as it was.
    """
    ends = np.cumsum([rows_of(part) for part in parts])
    order = np.random.default_rng(seed).permutation(int(ends[-1]))
    row_bytes = max(1, sum(column.row_bytes for column in columns.values()))
    group_rows = int(np.clip(GROUP_BYTES // row_bytes, *GROUP_ROWS))
    groups = -(-len(order) // group_rows)
    count = max(-(-len(order) * row_bytes // SHARD_BYTES), min(FEWEST_SHARDS, groups))
    for number, wanted in enumerate(np.array_split(order, count)):
        file = f"{split}-{number:05d}.parquet"
        rows = _taken(parts, ends, wanted, columns)
        shard = shards.write_shard(folder, file, rows, columns, group_rows)
        del rows
        shards.open_shard(folder, shard, columns)  # it can be read
        if fault := shards.checksum_fault(folder, shard):
            raise shards.NotPrepared(fault)
        yield shard


def _taken(
    parts: Sequence[Path],
    ends: np.ndarray[Any, Any],
    wanted: np.ndarray[Any, Any],
    columns: Mapping[str, Column],
) -> Rows:
    """The rows at these positions, in this order. Each part is read from its front to its back, once."""
    taken = {name: np.empty((len(wanted), *column.shape), column.dtype) for name, column in columns.items()}
    by_position = np.argsort(wanted, kind="stable")
    positions = wanted[by_position]
    begin = first = 0
    for part, end in zip(parts, ends, strict=True):
        last = int(np.searchsorted(positions, end))
        if last > first:
            with pa.memory_map(str(part)) as content:
                _take_of_part(content, taken, by_position[first:last], positions[first:last] - begin, columns)
        begin, first = int(end), last
    return taken


def _take_of_part(
    content: Any,
    taken: Mapping[str, np.ndarray[Any, Any]],
    into: np.ndarray[Any, Any],
    rows: np.ndarray[Any, Any],
    columns: Mapping[str, Column],
) -> None:
    reader = pa.ipc.open_file(content)
    begin = first = 0
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number)
        last = int(np.searchsorted(rows, begin + batch.num_rows))
        if last > first:
            arrays = shards.to_arrays(pa.Table.from_batches([batch]), columns)
            for name, values in arrays.items():
                taken[name][into[first:last]] = values[rows[first:last] - begin]
        begin, first = begin + batch.num_rows, last
