"""Prepared data on disk: shards, which are uncompressed Arrow files that are read by memory mapping.

A row group is a record batch, whose values are slices of the page cache's memory: nothing is copied, and all
processes of a PC share them. An array is stored as its bytes (FixedSizeBinary), a number as itself. The
manifest is written last: a folder without one is no data set.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sweeps.common import atomic_io
from sweeps.common.errors import CannotTrain

MANIFEST = "manifest.json"
FORMAT, PARQUET_FORMAT = 2, 1
"""Version of the manifest, which grows when older programs would misread it; the one with Parquet files."""
GROUP_ROWS = 4096
"""Rows of a row group: they are read at once, and shuffling keeps them together."""

Rows = Mapping[str, npt.NDArray[Any]]
"""Column name to its values [rows, ...]; all columns have the same number of rows."""


class NotPrepared(CannotTrain):
    """The folder holds no complete data set; the message names the file."""


@dataclass(frozen=True)
class Column:
    """Type of one column."""

    dtype: str
    """NumPy's name, as `uint8`."""
    shape: tuple[int, ...] = ()
    """Of one row's value; () is a number."""

    @property
    def row_bytes(self) -> int:
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)

    @property
    def arrow(self) -> pa.DataType:
        return pa.binary(self.row_bytes) if self.shape else pa.from_numpy_dtype(np.dtype(self.dtype))


@dataclass(frozen=True)
class Shard:
    """One file of rows."""

    file: str
    """Relative to the data set's folder."""
    rows: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Columns, shards and origin of a data set."""

    columns: Mapping[str, Column]
    splits: Mapping[str, Sequence[Shard]]
    """`train`, `val`, `test` to their shards."""
    fingerprint: str = ""
    """Checksum of the raw files, the code and the hyperparameters."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Further facts: the raw files that were skipped, the seconds it took."""

    def write(self, folder: Path) -> None:
        """Write it, after all shards."""
        content = json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=1)
        atomic_io.write(folder / MANIFEST, content)

    @classmethod
    def read(cls, folder: Path, version: int = FORMAT) -> Manifest:
        """Read the manifest of a data set, and check that each shard exists and has its size.

        Raises:
            NotPrepared: there is none, it is damaged or of another version, or a shard is missing or cut off.
        """
        path = folder / MANIFEST
        try:
            content = json.loads(path.read_text())
            if content.pop("format", 0) != version:
                raise NotPrepared(f"{path}: made by another version of this program; prepare the data again")
            columns = {
                name: Column(np.dtype(column["dtype"]).name, tuple(map(int, column["shape"])))
                for name, column in content.pop("columns").items()
            }
            splits = {
                name: [Shard(s["file"], int(s["rows"]), int(s["size_bytes"]), s["sha256"]) for s in shards]
                for name, shards in content.pop("splits").items()
            }
            manifest = cls(columns=columns, splits=splits, **content)
            for shard in manifest.shards:
                _check_size(folder / shard.file, shard.size_bytes)
        except FileNotFoundError:
            raise NotPrepared(f"no prepared data in {folder}: {MANIFEST} is missing") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NotPrepared(f"{path}: damaged ({type(error).__name__}: {error})") from None
        return manifest

    @property
    def shards(self) -> list[Shard]:
        """Of all splits."""
        return [shard for shards in self.splits.values() for shard in shards]

    def rows(self, split: str) -> int:
        return sum(shard.rows for shard in self.splits[split])


def columns_of(rows: Rows) -> dict[str, Column]:
    return {name: Column(values.dtype.name, values.shape[1:]) for name, values in rows.items()}


def schema_of(columns: Mapping[str, Column]) -> pa.Schema:
    """The schema of each shard; a field's metadata holds dtype and shape, for other programs too."""
    fields = []
    for name, column in columns.items():
        metadata = {"dtype": column.dtype, "shape": json.dumps(column.shape)}
        fields.append(pa.field(name, column.arrow, nullable=False, metadata=metadata))
    return pa.schema(fields)


def columns_in(schema: pa.Schema) -> dict[str, Column]:
    """The inverse of `schema_of`."""
    return {
        field.name: Column(field.metadata[b"dtype"].decode(), tuple(json.loads(field.metadata[b"shape"])))
        for field in schema
    }


def write_shard(
    folder: Path, file: str, rows: Rows, columns: Mapping[str, Column], group_rows: int = GROUP_ROWS
) -> Shard:
    """Write rows as one shard.

    Raises:
        ValueError: the rows do not fit the columns.
    """
    return _write_table(folder, file, to_table(rows, columns), group_rows)


def _write_table(folder: Path, file: str, table: pa.Table, group_rows: int) -> Shard:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_io.atomic_write(path) as part:
        with part.open("wb") as content, pa.ipc.new_file(content, table.schema) as writer:
            writer.write_table(table, max_chunksize=group_rows)
        digest = atomic_io.sha256_of(part)
    return Shard(file, table.num_rows, path.stat().st_size, digest)


def to_table(rows: Rows, columns: Mapping[str, Column]) -> pa.Table:
    """Arrays [rows, ...] as an Arrow table, without a copy where they are contiguous."""
    if dict(columns) != columns_of(rows):
        raise ValueError(f"rows are {columns_of(rows)}, the data set has {dict(columns)}")
    counts = {len(values) for values in rows.values()}
    if len(counts) != 1:
        raise ValueError(f"columns of one shard have {', '.join(map(str, sorted(counts)))} rows")
    arrays = []
    for name, column in columns.items():
        values = np.ascontiguousarray(rows[name])
        if column.shape:
            buffers = [None, pa.py_buffer(values)]
            arrays.append(pa.FixedSizeBinaryArray.from_buffers(column.arrow, len(values), buffers))
        else:
            arrays.append(pa.array(values))
    return pa.Table.from_arrays(arrays, schema=schema_of(columns))


def to_arrays(group: pa.RecordBatch, columns: Mapping[str, Column]) -> dict[str, npt.NDArray[Any]]:
    """The inverse of `to_table`, without a copy but for booleans; the arrays are read-only."""
    arrays = {}
    for name, column in columns.items():
        values = group.column(name)
        if column.shape:
            flat = np.frombuffer(values.buffers()[1] or b"", column.dtype)
            per_row = math.prod(column.shape)
            flat = flat[values.offset * per_row : (values.offset + len(values)) * per_row]
            arrays[name] = flat.reshape(len(values), *column.shape)
        else:
            arrays[name] = values.to_numpy(zero_copy_only=False)
    return arrays


def open_groups(path: Path) -> list[pa.RecordBatch]:
    """The row groups of an Arrow file, memory-mapped.

    The mapping keeps no file open, as NumPy's would: a large data set has more shards than a process may open
    files.
    """
    with pa.memory_map(str(path)) as opened:
        reader = pa.ipc.open_file(opened.read_buffer())
    return [reader.get_batch(number) for number in range(reader.num_record_batches)]


def open_shard(folder: Path, shard: Shard, columns: Mapping[str, Column]) -> list[pa.RecordBatch]:
    """The row groups of a shard.

    Raises:
        NotPrepared: it is missing, cut off, no Arrow file, or has other columns.
    """
    path = folder / shard.file
    _check_size(path, shard.size_bytes)
    try:
        groups = open_groups(path)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, f"it is not readable as Arrow ({' '.join(str(error).split())})") from None
    if groups and not groups[0].schema.equals(schema_of(columns)):
        found, wanted = _in_words(groups[0].schema), _in_words(schema_of(columns))
        raise _damaged(path, f"its columns are {found}; the data set has {wanted}")
    if (rows := sum(group.num_rows for group in groups)) != shard.rows:
        raise _damaged(path, f"it has {rows:,} rows; the manifest says {shard.rows:,}")
    return groups


def convert_parquet(folder: Path) -> bool:
    """Write the shards of an older version, intact Parquet files, as Arrow files; whether they were such.

    Raises:
        OSError: the disk is full; the data set is as it was.
    """
    try:
        manifest = Manifest.read(folder, PARQUET_FORMAT)
    except NotPrepared:
        return False
    if checksum_faults(folder, manifest):
        return False
    import pyarrow.parquet as pq  # not above: only here

    splits: dict[str, list[Shard]] = {split: [] for split in manifest.splits}
    for split, parquet in manifest.splits.items():
        for shard in parquet:
            file = pq.ParquetFile(folder / shard.file, memory_map=True)
            group_rows = file.metadata.row_group(0).num_rows  # as before: so the order of an epoch stays
            name = Path(shard.file).with_suffix(".arrow").name
            splits[split].append(_write_table(folder, name, file.read(), group_rows))
    dataclasses.replace(manifest, splits=splits).write(folder)
    for shard in manifest.shards:
        (folder / shard.file).unlink()
    return True


def checksum_faults(folder: Path, manifest: Manifest) -> dict[Path, str]:
    """Path of each damaged shard to the message about it. Reads all shards."""
    return {folder / s.file: fault for s in manifest.shards if (fault := checksum_fault(folder, s))}


def checksum_fault(folder: Path, shard: Shard) -> str:
    """Why a shard is damaged; "" when it is not."""
    path = folder / shard.file
    return "" if atomic_io.sha256_of(path) == shard.sha256 else f"{path}: damaged: its checksum differs"


def _damaged(path: Path, what: str) -> NotPrepared:
    """Of a shard that has its size: preparing replaces only shards that are missing or of another size."""
    remedy = f"{shlex.join(['rm', str(path)])}, then sweeps prepare NAME"
    return NotPrepared(f"{path}: {what}. Delete it and prepare the data again: {remedy}")


def _check_size(path: Path, size_bytes: int) -> None:
    try:
        found = path.stat().st_size
    except FileNotFoundError:
        raise NotPrepared(f"{path} is missing") from None
    if found != size_bytes:
        raise NotPrepared(f"{path}: {found:,} bytes, the manifest says {size_bytes:,}: cut off or replaced")


def _in_words(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)
