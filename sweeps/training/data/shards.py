"""Prepared data on disk: Parquet shards whose rows are read as whole slices of memory.

A value is an array of one shape for all rows. It is kept as its bytes (FixedSizeBinary), uncompressed,
without a dictionary and with one page in each row group: so the rows of a group lie beside one another in
the file, and are read where they lie, from the system's one copy (`mapped`). A list column of the same bytes
reads at 0.2 GiB/s, zstd at 0.35, memory at 15. A single number is a plain Arrow number, for other programs
to read.

The manifest is written last: a folder without one is no data set, whatever else lies there.
"""

from __future__ import annotations

import dataclasses
import hashlib
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
"""Of the manifest: a number that grows when older programs would misread it."""
GROUP_ROWS = 4096
"""Rows that are read at once, and that shuffling keeps together."""
PAGE_BYTES, PAGE_ROWS = 2**28, 2**14
"""Limits of a row group, which is one page; Parquet's own are 2 GiB and, as PyArrow writes it, 20,000."""

Rows = Mapping[str, npt.NDArray[Any]]
"""Column to its values [rows, ...], as many rows in each."""


class NotPrepared(CannotTrain):
    """The folder holds no whole data set: which file is at fault, and how."""


@dataclass(frozen=True)
class Column:
    """One value of a row."""

    dtype: str
    """NumPy's name, as `uint8`."""
    shape: tuple[int, ...] = ()
    """() is a number."""

    @property
    def row_bytes(self) -> int:
        """Of one row."""
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)

    @property
    def arrow(self) -> pa.DataType:
        """How Parquet has it."""
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
    """What a data set is: its columns, its shards, what it was made of."""

    columns: Mapping[str, Column]
    splits: Mapping[str, Sequence[Shard]]
    """`train`, `val`, `test` to their shards."""
    fingerprint: str = ""
    """Of the raw files, the code and the parameters that it was made with."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What else is worth knowing: items that were skipped, seconds that it took."""

    def write(self, folder: Path) -> None:
        """Make the data set whole: from now on it is one."""
        content = json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=1)
        atomic_io.write(folder / MANIFEST, content)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of a data set, each of its files there and of its size.

        Raises:
            NotPrepared: there is none, it is damaged or of a newer version, or a shard is missing or cut off.
        """
        path = folder / MANIFEST
        try:
            content = json.loads(path.read_text())
        except FileNotFoundError:
            raise NotPrepared(f"no prepared data in {folder}: {MANIFEST} is missing") from None
        except ValueError as error:
            raise NotPrepared(f"{path}: not JSON ({error})") from None
        if not isinstance(content, dict) or content.pop("format", 0) != FORMAT:
            raise NotPrepared(f"{path}: of another version of this program; prepare the data again")
        try:
            manifest = cls._of(content)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            said = f"{type(error).__name__}: {error}"
            raise NotPrepared(f"{path}: damaged ({said})") from None
        for shard in (shard for shards in manifest.splits.values() for shard in shards):
            _check_size(folder / shard.file, shard.size_bytes)
        return manifest

    @classmethod
    def _of(cls, content: dict[str, Any]) -> Manifest:
        columns = {
            name: Column(np.dtype(column["dtype"]).name, tuple(map(int, column["shape"])))
            for name, column in content.pop("columns").items()
        }
        splits = {
            name: [
                Shard(str(shard["file"]), int(shard["rows"]), int(shard["size_bytes"]), str(shard["sha256"]))
                for shard in shards
            ]
            for name, shards in content.pop("splits").items()
        }
        return cls(columns=columns, splits=splits, **content)

    def rows(self, split: str) -> int:
        """Rows of a split."""
        return sum(shard.rows for shard in self.splits[split])


def columns_of(rows: Rows) -> dict[str, Column]:
    """The columns that hold such rows."""
    return {name: Column(values.dtype.name, values.shape[1:]) for name, values in rows.items()}


def schema_of(columns: Mapping[str, Column]) -> pa.Schema:
    """The schema of each shard; dtype and shape stand beside each field, for other programs."""
    return pa.schema(
        pa.field(
            name,
            column.arrow,
            nullable=False,
            metadata={"dtype": column.dtype, "shape": json.dumps(column.shape)},
        )
        for name, column in columns.items()
    )


def columns_in(schema: pa.Schema) -> dict[str, Column]:
    """The columns that a schema of `schema_of` was made of."""
    return {
        field.name: Column(
            field.metadata[b"dtype"].decode(), tuple(json.loads(field.metadata[b"shape"].decode()))
        )
        for field in schema
    }


def write_shard(
    folder: Path, file: str, rows: Rows, columns: Mapping[str, Column], group_rows: int = GROUP_ROWS
) -> Shard:
    """Write rows as one shard.

    Raises:
        ValueError: a row is not what the columns say.
    """
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    table = to_table(rows, columns)
    widest = max(column.row_bytes for column in columns.values())
    group_rows = min(group_rows, PAGE_ROWS, max(1, PAGE_BYTES // widest))
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
        with part.open("rb") as written:
            digest = hashlib.file_digest(written, "sha256").hexdigest()
    return Shard(file, table.num_rows, path.stat().st_size, digest)


def to_table(rows: Rows, columns: Mapping[str, Column]) -> pa.Table:
    """Arrays [rows, ...] as Arrow has them, without a copy where they are contiguous."""
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


def to_arrays(table: pa.Table, columns: Mapping[str, Column]) -> dict[str, npt.NDArray[Any]]:
    """Columns [rows, ...] of what was read, without a copy; not to be written into."""
    arrays = {}
    for name, column in columns.items():
        values = table.column(name).combine_chunks()
        if isinstance(values, pa.ChunkedArray):  # of an empty table
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], column.arrow)
        if column.shape:
            flat = np.frombuffer(values.buffers()[1] or b"", column.dtype)
            per_row = math.prod(column.shape)
            flat = flat[values.offset * per_row : (values.offset + len(values)) * per_row]
            arrays[name] = flat.reshape(len(values), *column.shape)
        else:
            arrays[name] = values.to_numpy(zero_copy_only=False)
    return arrays


def open_shard(
    folder: Path, shard: Shard, columns: Mapping[str, Column]
) -> tuple[pq.ParquetFile, npt.NDArray[np.uint8]]:
    """A shard and its bytes, memory-mapped: all that read it on a PC share one copy, the system's.

    Arrow's mapping outlives the file that it was made of, so no file is left open: a process has a thousand
    at most, and a large data set as many shards. (NumPy's holds on to one.)

    Raises:
        NotPrepared: it is missing, cut off, no Parquet, or of other columns.
    """
    path = folder / shard.file
    _check_size(path, shard.size_bytes)
    try:
        with pa.memory_map(str(path)) as opened:
            content = opened.read_buffer()
        file = pq.ParquetFile(pa.BufferReader(content))
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, f"not a shard that can be read ({' '.join(str(error).split())})") from None
    if not file.schema_arrow.equals(schema_of(columns)):
        found, wanted = _in_words(file.schema_arrow), _in_words(schema_of(columns))
        raise _damaged(path, f"its columns are {found}; those of the data set {wanted}")
    if file.metadata.num_rows != shard.rows:
        raise _damaged(path, f"{file.metadata.num_rows:,} rows, the manifest says {shard.rows:,}")
    return file, np.frombuffer(content, np.uint8)


def checksum_faults(folder: Path, manifest: Manifest) -> dict[Path, str]:
    """The shards whose content is not what was written, and what is said of each. Reads all of it."""
    all_shards = (shard for shards in manifest.splits.values() for shard in shards)
    return {folder / shard.file: fault for shard in all_shards if (fault := checksum_fault(folder, shard))}


def checksum_fault(folder: Path, shard: Shard) -> str:
    """Why a shard is not what was written; "" when it is."""
    with (folder / shard.file).open("rb") as content:
        if hashlib.file_digest(content, "sha256").hexdigest() == shard.sha256:
            return ""
    return f"{folder / shard.file}: damaged, its checksum is another"


def _damaged(path: Path, what: str) -> NotPrepared:
    """Of a shard that is of its size: only one that is missing, or of another, is seen and made anew."""
    remedy = f"{shlex.join(['rm', str(path)])}, and prepare the data again"
    return NotPrepared(f"{path}: {what}. To mend it: {remedy} (sweeps prepare NAME)")


def _check_size(path: Path, size_bytes: int) -> None:
    try:
        found = path.stat().st_size
    except FileNotFoundError:
        raise NotPrepared(f"{path} is missing") from None
    if found != size_bytes:
        raise NotPrepared(f"{path}: {found:,} bytes, the manifest says {size_bytes:,}: cut off or replaced")


def _in_words(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)


def mapped(
    content: npt.NDArray[np.uint8], metadata: pq.FileMetaData, group: int, name: str, row_bytes: int
) -> npt.NDArray[np.uint8]:
    """The values of an array column in a row group, where they lie in a file: [rows, bytes].

    A chunk that is one page, not compressed, without nulls, is a header and then its values
    (https://parquet.apache.org/docs/file-format/).

    Args:
        content: of the file, mapped.
        metadata: of the file.
        group: number of the row group.
        name: of the column.
        row_bytes: of one value.

    Raises:
        ValueError: this chunk is another.
    """
    rows = metadata.row_group(group).num_rows
    chunk = metadata.row_group(group).column(metadata.schema.names.index(name))
    first, last = chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size
    values = max(first, last - rows * row_bytes)
    if not content[first:values].tobytes().startswith(_page_header(rows, row_bytes)):
        raise ValueError(f"column {name} of row group {group} is not one plain page")
    return content[values:last].reshape(rows, row_bytes)


def _page_header(rows: int, row_bytes: int) -> bytes:
    """How the header of a page of all these rows begins: of type 0, its size, its size when compressed,
    its rows, in encoding 0; numbers as Thrift's compact protocol has them."""
    size = b"\x15" + _varint(rows * row_bytes)
    return b"\x15\x00" + size + size + b"\x2c\x15" + _varint(rows) + b"\x15\x00"


def _varint(number: int) -> bytes:
    left, written = 2 * number, bytearray()  # the lowest bit is the sign
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*written, left])
