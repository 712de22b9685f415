"""Parts: the rows of one raw file, kept until all raw files are prepared.

A part is an uncompressed Arrow file, read by memory mapping. A part that exists is complete.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sweeps.common import atomic_io
from sweeps.common.errors import innermost
from sweeps.training.data import shards
from sweeps.training.data.shards import Column

BLOCK_BYTES = 64 * 2**20
"""Size of a block that a worker sends, at most (unless one row is larger)."""
KINDS = "biuf"
"""NumPy's kinds of types that a column may have: booleans, integers and floats."""


class BadRows(ValueError):
    """`prepare` yielded something else than a block of rows."""


def encoded(blocks: Iterable[Any]) -> Iterator[tuple[bytes, int]]:
    """The blocks of one raw file as bytes for `PartWriter`, each with its number of rows.

    Raises:
        BadRows: a block is not one of rows, or there is no row.
        Exception: any error of `prepare`.
    """
    columns: dict[str, Column] | None = None
    has_rows = False
    for block in blocks:
        rows = _arrays(block)
        columns = columns or shards.columns_of(rows)
        try:
            table = shards.to_table(rows, columns)
        except ValueError as error:
            raise BadRows(str(error)) from None
        step = max(1, BLOCK_BYTES // max(1, sum(column.row_bytes for column in columns.values())))
        for first in range(0, table.num_rows, step):
            piece = table.slice(first, step)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(piece)
            yield sink.getvalue().to_pybytes(), piece.num_rows
            has_rows = True
    if not has_rows:
        raise BadRows("prepare yields no row")


class PartWriter:
    """Writes one part, block by block."""

    def __init__(self, path: Path) -> None:
        self._path, self._part = path, atomic_io.part_of(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._part.open("wb")
        self._writer: Any = None
        self.rows = self.blocks = 0

    def add(self, block: Any) -> None:
        """Append a block of `encoded`: bytes, or an Arrow buffer."""
        with pa.ipc.open_stream(block) as stream:
            self._writer = self._writer or pa.ipc.new_file(self._file, stream.schema)
            for batch in stream:
                self._writer.write_batch(batch)
                self.rows += batch.num_rows
        self.blocks += 1

    def commit(self) -> None:
        """Rename the complete part to its final name."""
        self._writer.close()
        self._file.close()
        atomic_io.put(self._part, self._path)

    def discard(self) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)


def columns_of(part: Path) -> dict[str, Column]:
    with pa.memory_map(str(part)) as content:
        return shards.columns_in(pa.ipc.open_file(content).schema)


def rows_of(part: Path) -> int:
    with pa.memory_map(str(part)) as content:
        reader = pa.ipc.open_file(content)
        return sum(reader.get_batch(number).num_rows for number in range(reader.num_record_batches))


def reason_of(error: BaseException, function: str) -> str:
    """Why a raw file could not be prepared: the error, and its line in the user's `function`."""
    cause = innermost(error)
    text = " ".join(str(cause).split())
    if isinstance(cause, BadRows):
        return text
    said = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    own = [frame for frame in frames if frame.name == function] or frames
    return f"{said[:300]} ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else said[:300]


def _arrays(block: Any) -> dict[str, np.ndarray[Any, Any]]:
    if not isinstance(block, Mapping) or not block:
        raise BadRows(f"prepare yields {type(block).__name__}, not column -> array [rows, ...]")
    arrays = {str(name): np.asarray(values) for name, values in block.items()}
    for name, values in arrays.items():
        if values.dtype.kind not in KINDS or not values.dtype.isnative:
            raise BadRows(
                f"column {name} has type {values.dtype}: it must hold numbers in this PC's byte order"
            )
        if values.ndim == 0:
            raise BadRows(f"column {name} is one value, not an array [rows, ...]")
    return arrays
