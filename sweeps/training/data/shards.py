"""Prepared data on disk: Parquet shards whose rows are read as whole slices of memory.

An array is stored as its bytes (FixedSizeBinary), uncompressed, one page per row group, so that it is read
from the page cache without a copy: 15 GiB/s, where a list column reads 0.2 and zstd 0.35. A number is a plain
Arrow number. The manifest is written last: a folder without one is no data set.
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
import pyarrow.parquet as pq

from sweeps.common import atomic_io
from sweeps.common.errors import CannotTrain

MANIFEST = "manifest.json"
FORMAT = 1
"""Version of the manifest; it grows when older programs would misread it."""
GROUP_BYTES, GROUP_ROWS = 16 * 2**20, (1024, 8192)
"""Size of a row group, and bounds of its rows: they are read at once, and shuffling keeps them together."""
PAGE_BYTES = 2**28
"""The most of a column in a row group, which is one page; Parquet's own limits are 2 GiB and, in PyArrow's
writer, 20,000 rows."""
LEAST_HEADER_BYTES = 17
"""Of a page: key and value of each required field, and the ends of two structures, a byte or more each
(https://parquet.apache.org/docs/file-format/). PyArrow's header without statistics takes 19 to 29."""

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
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest of a data set, and check that each shard exists and has its size.

        Raises:
            NotPrepared: there is none, it is damaged or of another version, or a shard is missing or cut off.
        """
        path = folder / MANIFEST
        try:
            content = json.loads(path.read_text())
            if content.pop("format", 0) != FORMAT:
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


def rows_of_group(columns: Mapping[str, Column]) -> int:
    """Rows of a row group of these columns."""
    sizes = [column.row_bytes for column in columns.values()]
    rows = int(np.clip(GROUP_BYTES // max(1, sum(sizes)), *GROUP_ROWS))
    return max(1, min(rows, PAGE_BYTES // max([1, *sizes])))


def write_shard(folder: Path, file: str, rows: Rows, columns: Mapping[str, Column]) -> Shard:
    """Write rows as one shard.

    Raises:
        ValueError: the rows do not fit the columns.
    """
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    table = to_table(rows, columns)
    group_rows = rows_of_group(columns)
    with atomic_io.atomic_write(path) as part:
        pq.write_table(
            table,
            part,
            row_group_size=group_rows,
            write_batch_size=group_rows,
            data_page_size=2 * PAGE_BYTES,
            compression="none",
            use_dictionary=False,
            write_statistics=False,
        )
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


def to_arrays(block: pa.RecordBatch, columns: Mapping[str, Column]) -> dict[str, npt.NDArray[Any]]:
    """The inverse of `to_table`, without a copy but for booleans; the arrays are read-only."""
    arrays = {}
    for name, column in columns.items():
        values = block.column(name)
        if column.shape:
            flat = np.frombuffer(values.buffers()[1] or b"", column.dtype)
            per_row = math.prod(column.shape)
            flat = flat[values.offset * per_row : (values.offset + len(values)) * per_row]
            arrays[name] = flat.reshape(len(values), *column.shape)
        else:
            arrays[name] = values.to_numpy(zero_copy_only=False)
    return arrays


class MappedShard:
    """A shard that is memory-mapped: all processes of a PC share the page cache's copy.

    Arrow's mapping keeps no file open, as NumPy's would: a large data set has more shards than a process may
    open files.

    Raises:
        NotPrepared: it is missing, cut off, not Parquet, or has other columns.
    """

    def __init__(self, folder: Path, shard: Shard, columns: Mapping[str, Column]) -> None:
        self._path, self._columns = folder / shard.file, columns
        _check_size(self._path, shard.size_bytes)
        try:
            with pa.memory_map(str(self._path)) as opened:
                content = opened.read_buffer()
            self._file = pq.ParquetFile(pa.BufferReader(content))
        except (OSError, pa.ArrowException) as error:
            said = " ".join(str(error).split())
            raise _damaged(self._path, f"it is not readable as Parquet ({said})") from None
        self._content, self._metadata = np.frombuffer(content, np.uint8), self._file.metadata
        if not self._file.schema_arrow.equals(schema_of(columns)):
            found, wanted = _in_words(self._file.schema_arrow), _in_words(schema_of(columns))
            raise _damaged(self._path, f"its columns are {found}; the data set has {wanted}")
        if (rows := self._metadata.num_rows) != shard.rows:
            raise _damaged(self._path, f"it has {rows:,} rows; the manifest says {shard.rows:,}")

    @property
    def rows_of_groups(self) -> list[int]:
        """Rows of each row group."""
        groups = range(self._metadata.num_row_groups)
        return [self._metadata.row_group(group).num_rows for group in groups]

    def read_group(self, group: int) -> dict[str, npt.NDArray[np.uint8]]:
        """The columns of a row group as bytes [rows, bytes]: arrays are views of the file, numbers copies.

        Raises:
            NotPrepared: the shard was not written by `write_shard`.
        """
        names = [name for name, column in self._columns.items() if not column.shape]
        numbers = self._file.read_row_group(group, columns=names, use_threads=False)
        return {
            name: self._values(group, name, column.row_bytes)
            if column.shape
            else numbers.column(name).to_numpy().view(np.uint8).reshape(-1, column.row_bytes)
            for name, column in self._columns.items()
        }

    def _values(self, group: int, name: str, row_bytes: int) -> npt.NDArray[np.uint8]:
        chunk = self._metadata.row_group(group).column(self._metadata.schema.names.index(name))
        begin, size_bytes = chunk.data_page_offset, chunk.num_values * row_bytes
        end = begin + chunk.total_compressed_size
        # Plain values of a fixed size, without nulls: what else the chunk holds are the headers of its pages.
        # RLE is the encoding of the levels, of which a column without nulls has none.
        is_plain = set(chunk.encodings) <= {"PLAIN", "RLE"} and not chunk.has_dictionary_page
        is_one_page = 0 < end - begin - size_bytes < 2 * LEAST_HEADER_BYTES
        if chunk.compression != "UNCOMPRESSED" or not is_plain or not is_one_page:
            raise NotPrepared(
                f"{self._path}: column {name} of row group {group} is not one plain page; "
                "prepare the data again"
            )
        return self._content[end - size_bytes : end].reshape(chunk.num_values, row_bytes)


def checksum_faults(folder: Path, manifest: Manifest) -> dict[Path, str]:
    """Path of each damaged shard to the message about it. Reads all shards."""
    faults = {}
    for shard in manifest.shards:
        path = folder / shard.file
        try:
            if atomic_io.sha256_of(path) != shard.sha256:
                faults[path] = f"{path}: damaged: its checksum differs"
        except OSError as error:  # of a disk that fails
            faults[path] = f"{path}: damaged: it can't be read ({error.strerror})"
    return faults


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
