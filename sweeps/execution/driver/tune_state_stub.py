"""A file system that keeps nothing, for what Tune writes.

The record is the truth and the checkpoints are in the sweep's storage, so no one reads Tune's state or its
(empty) folders of checkpoints. But Tune stops when a worker does not find what the driver has written. So
each checkpoint is found here, on any PC, and the file by which Tune sees that all PCs share a folder.
"""

from __future__ import annotations

import io
from pathlib import PurePosixPath
from typing import Any

from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

MARKER = ".validate_storage_marker"
"""ray/train/_internal/storage.py; a sweep fails at its start where Ray has changed it."""


class EmptyFiles(MemoryFileSystem):
    """Has what Tune looks for, without any content: in its own process also what it has written."""

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}  # its own: the class has one for all of a process
        self.pseudo_dirs = [""]
        self._empty = MemoryFile(self, "")

    def __reduce__(self) -> tuple[Any, ...]:
        return EmptyFiles, ()

    def info(self, path: str, **options: Any) -> Any:
        """As fsspec has it."""
        name = PurePosixPath(path).name
        if name == MARKER or name.startswith("checkpoint_"):
            kind = "file" if name == MARKER else "directory"
            return {"name": self._strip_protocol(path), "size": 0, "type": kind}
        return super().info(path, **options)

    def _open(self, path: str, mode: str = "rb", *arguments: Any, **options: Any) -> Any:
        if "w" not in mode:
            return super()._open(path, mode, *arguments, **options)
        self.store[self._strip_protocol(path)] = self._empty  # Tune lists its own snapshots at the end
        return io.BytesIO()  # what is written is dropped with it


def file_system() -> FileSystem:
    """A new one, as Tune takes it."""
    return PyFileSystem(FSSpecHandler(EmptyFiles()))
