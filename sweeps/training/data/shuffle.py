"""Parts to shards: all rows of a split in one seeded order, so that training reads whole slices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sweeps.training.data import shards
from sweeps.training.data.shards import Column, Rows, Shard
from sweeps.training.data.staging import rows_of

SHARD_BYTES = 256 * 2**20
"""Size of a shard, about."""
FEWEST_SHARDS = 4
"""Shards of a split, unless it has fewer row groups: other programs distribute a data set by its files."""
GROUP_BYTES = 16 * 2**20
GROUP_ROWS = (1024, 8192)
"""Size of a row group, and bounds of its rows: fast to read at once."""


def shuffled(
    folder: Path, split: str, parts: Sequence[Path], columns: Mapping[str, Column], seed: tuple[int, ...]
) -> Iterator[Shard]:
    """Write all rows of all parts as shards; the seed and the order of the parts decide the order of rows.

    Raises:
        NotPrepared: a shard can't be read back as it was written.
    """
    ends = [0, *itertools.accumulate(map(rows_of, parts))]
    order = np.random.default_rng(seed).permutation(ends[-1])
    row_bytes = max(1, sum(column.row_bytes for column in columns.values()))
    group_rows = int(np.clip(GROUP_BYTES // row_bytes, *GROUP_ROWS))
    groups = -(-len(order) // group_rows)
    count = max(-(-len(order) * row_bytes // SHARD_BYTES), min(FEWEST_SHARDS, groups))
    for number, wanted in enumerate(np.array_split(order, count)):
        file = f"{split}-{number:05d}.arrow"
        rows = _taken(parts, ends, wanted, columns)
        shard = shards.write_shard(folder, file, rows, columns, group_rows)
        del rows
        shards.open_shard(folder, shard, columns)  # raises if it is not readable
        if fault := shards.checksum_fault(folder, shard):
            raise shards.NotPrepared(fault)
        yield shard


def _taken(
    parts: Sequence[Path],
    ends: Sequence[int],
    wanted: npt.NDArray[np.int64],
    columns: Mapping[str, Column],
) -> Rows:
    """The rows at the wanted positions, in that order. Each part is read once, from front to back."""
    taken = {name: np.empty((len(wanted), *column.shape), column.dtype) for name, column in columns.items()}
    by_position = np.argsort(wanted, kind="stable")
    positions = wanted[by_position]
    first = 0
    for part, (begin, end) in zip(parts, itertools.pairwise(ends), strict=True):
        if first == len(positions) or positions[first] >= end:  # it holds no wanted row
            continue
        with pa.memory_map(str(part)) as content:
            reader = pa.ipc.open_file(content)
            for batch in map(reader.get_batch, range(reader.num_record_batches)):
                last = int(np.searchsorted(positions, begin + batch.num_rows))
                if last > first:  # else nothing of it is copied
                    arrays = shards.to_arrays(batch, columns)
                    for name, values in arrays.items():
                        taken[name][by_position[first:last]] = values[positions[first:last] - begin]
                begin, first = begin + batch.num_rows, last
    return taken
