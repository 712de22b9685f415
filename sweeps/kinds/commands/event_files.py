"""The scalars of TensorBoard's event files, while a program writes them."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sweeps.kinds.commands.printed_metrics import EPOCH

PATTERN = "events.out.tfevents"
"""In the name of each such file."""
LOOK_EVERY_S = 1.0
"""How often new files are looked for."""
HEAD_BYTES, CHECK_BYTES = 12, 4
"""Before a record its length with a checksum, behind it a checksum.
https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details"""


class EventFiles:
    """The event files below a folder; links are not followed.

    Args:
        folder: in which a program writes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._looked_at = folder, 0.0
        self._read: dict[Path, int] = {}
        """Bytes of each file that were read."""

    def new(self, *, at_the_end: bool = False) -> Iterator[dict[str, float]]:
        """Tag to value of each event since the last call, and its step as the epoch."""
        if at_the_end or time.monotonic() >= self._looked_at + LOOK_EVERY_S:
            self._looked_at = time.monotonic()
            for folder, _, names in os.walk(self._folder):
                files = (Path(folder, name) for name in names if PATTERN in name)
                self._read |= {file: 0 for file in sorted(files) if file not in self._read}
        for file in self._read:
            yield from self._new_of(file)

    def _new_of(self, path: Path) -> Iterator[dict[str, float]]:
        if path.stat().st_size < self._read[path] + HEAD_BYTES:
            return
        from tensorboardX.proto.event_pb2 import Event  # with PyTorch, where a program writes such a file

        with path.open("rb") as file:
            file.seek(self._read[path])
            while len(head := file.read(HEAD_BYTES)) == HEAD_BYTES:
                (length,) = struct.unpack("<Q", head[:8])
                content = file.read(length + CHECK_BYTES)
                if len(content) < length + CHECK_BYTES:
                    return  # it is being written
                self._read[path] = file.tell()
                event = Event.FromString(content[:length])
                found = {each.tag: _number(each) for each in event.summary.value}
                if values := {tag: value for tag, value in found.items() if value is not None}:
                    yield {**values, EPOCH: float(event.step)}


def _number(value: Any) -> float | None:
    """A scalar, as PyTorch and as TensorFlow 2 write it; None of anything else."""
    if value.HasField("simple_value"):
        return float(value.simple_value)
    tensor = value.tensor if value.HasField("tensor") else None
    if tensor is None or tensor.tensor_shape.dim:
        return None
    for listed in (tensor.float_val, tensor.double_val):
        if listed:
            return float(listed[0])
    size = {1: "<f", 2: "<d"}.get(tensor.dtype)  # DT_FLOAT, DT_DOUBLE
    return float(struct.unpack(size, tensor.tensor_content)[0]) if size and tensor.tensor_content else None
