"""A file system that keeps nothing, for what Tune writes.

The record is the truth and the checkpoints are in the sweep's storage, so no one reads Tune's state or its
(empty) folders of checkpoints. But Tune stops when a worker does not find a file that the driver has written.
This file system keeps the names of files without their contents; a pickled copy has the names of that moment.
So no PC but the driver's needs the folder of the sweep. Each checkpoint of a trial brings a copy, and the
driver keeps one for all that have the same names.
"""

from __future__ import annotations

import functools
import io
from pathlib import PurePosixPath
from typing import Any

from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem


class NamesOnly(MemoryFileSystem):
    """Empty files of these names, in memory."""

    cachable = False

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}  # its own: the class has one for all of a process
        self.pseudo_dirs = [""]
        self._empty = MemoryFile(self, "")
        """What all names stand for: there are several of each trial."""
        for name in names:
            self._open(name, "wb")

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy, (tuple(self.store),)

    def info(self, path: str, **options: Any) -> Any:
        """As fsspec has it; the folder of a checkpoint is always there, and empty."""
        if PurePosixPath(path).name.startswith("checkpoint_"):
            return {"name": self._strip_protocol(path), "size": 0, "type": "directory"}
        return super().info(path, **options)

    def _open(self, path: str, mode: str = "rb", *arguments: Any, **options: Any) -> Any:
        if "w" not in mode:
            return super()._open(path, mode, *arguments, **options)
        self.store[self._strip_protocol(path)] = self._empty
        return io.BytesIO()  # what is written is dropped with it


@functools.cache
def _copy(names: tuple[str, ...]) -> NamesOnly:
    return NamesOnly(names)


def file_system() -> FileSystem:
    """A new one, as Tune takes it."""
    return PyFileSystem(FSSpecHandler(NamesOnly()))
