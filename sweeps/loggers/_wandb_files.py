"""Files of W&B, read to learn what they hold: it reports no error where a disk is full or a folder is gone.

A file is a log of LevelDB with a header of 7 bytes, and each record a `Record` of wandb's protocol buffers.
https://github.com/google/leveldb/blob/main/doc/log_format.md
https://github.com/wandb/wandb/blob/main/wandb/proto/wandb_internal.proto
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from wandb.proto.wandb_internal_pb2 import Record

BLOCK_BYTES, HEADER_BYTES = 32768, 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
"""Kinds of the parts of a record."""


@dataclass(frozen=True)
class File:
    """What a file holds."""

    path: Path
    epochs: tuple[int, ...] = ()
    status: str = ""
    """Of the trial when it was written."""
    is_whole: bool = False
    """Whether the run was finished."""

    @property
    def id(self) -> str:
        """Of its run."""
        return self.path.stem.removeprefix("run-")

    @property
    def last_epoch(self) -> int:
        return max(self.epochs, default=0)


def found(folder: Path) -> Iterator[File]:
    """Those in a folder of W&B, in the order in which they were begun."""
    return map(read, sorted(folder.glob("*run-*/run-*.wandb")))


def read(path: Path) -> File:
    """What a file holds, as far as it can be read; nothing where there is none."""
    found: dict[str, Any] = {}
    epochs = []
    for record in records(path):
        kind = record.WhichOneof("record_type")
        if kind == "history":
            epochs.append(record.history.step.num)
        elif kind == "summary":
            for item in record.summary.update:
                if item.key == "status":
                    found["status"] = json.loads(item.value_json)
        elif kind == "exit":
            found["is_whole"] = True
    return File(path, epochs=tuple(epochs), **found)


def records(path: Path) -> Iterator[Any]:
    """The records of a file, up to the first that is incomplete."""
    try:
        content = path.read_bytes()
    except OSError:
        return
    position, record = HEADER_BYTES, b""
    while position + HEADER_BYTES <= len(content):
        if (left := BLOCK_BYTES - position % BLOCK_BYTES) < HEADER_BYTES:
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, position)
        position += HEADER_BYTES
        part = content[position : position + length]
        position += length
        if len(part) < length or kind not in (FULL, FIRST, MIDDLE, LAST):
            return
        record = part if kind in (FULL, FIRST) else record + part
        if kind in (FULL, LAST):
            try:
                yield Record.FromString(record)
            except DecodeError:
                return
