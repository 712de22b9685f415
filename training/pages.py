"""Where the values of a Parquet column lie in its file, for reading them there.

PyArrow copies what it reads. A row group that is one plain page needs no decoding: its values lie beside one
another behind a short header, and the system's one copy of the file is all the memory they take.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq


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
