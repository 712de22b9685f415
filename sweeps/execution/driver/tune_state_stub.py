"""A file system that keeps nothing, for what Tune writes.

The record is the truth and the checkpoints are in the sweep's storage, so no one reads Tune's state or its
(empty) folders of checkpoints. But Tune stops when a worker does not find a file that the driver has written.
This file system keeps the names of files without their contents, and its copies in other processes find
whatever they are asked for. So no PC but the driver's needs the folder of the sweep.
"""

from __future__ import annotations

import io
from pathlib import PurePosixPath
from typing import Any

from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem


class EmptyFiles(MemoryFileSystem):
    """Empty files in memory; a pickled copy has one of every name."""

    cachable = False

    def __init__(self, has_all: bool = False) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}  # its own: the class has one for all of a process
        self.pseudo_dirs = [""]
        self._has_all, self._empty = has_all, MemoryFile(self, "")

    def __reduce__(self) -> tuple[Any, ...]:
        return EmptyFiles, (True,)

    def info(self, path: str, **options: Any) -> Any:
        """As fsspec has it; the folder of a checkpoint is always there, and empty."""
        is_checkpoint = PurePosixPath(path).name.startswith("checkpoint_")
        if is_checkpoint or self._has_all:
            kind = "directory" if is_checkpoint else "file"
            return {"name": self._strip_protocol(path), "size": 0, "type": kind}
        return super().info(path, **options)

    def _open(self, path: str, mode: str = "rb", *arguments: Any, **options: Any) -> Any:
        if "w" not in mode:
            return super()._open(path, mode, *arguments, **options)
        self.store[self._strip_protocol(path)] = self._empty  # one for all names: each trial has several
        return io.BytesIO()  # what is written is dropped with it


def file_system() -> FileSystem:
    """A new one, as Tune takes it."""
    return PyFileSystem(FSSpecHandler(EmptyFiles()))
