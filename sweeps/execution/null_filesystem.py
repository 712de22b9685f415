"""Where Tune puts what it wants to keep: nowhere.

Nobody reads Tune's state (the record is the truth) nor its folders of checkpoints (they are empty; the
checkpoints are in the sweep's storage), but Tune refuses to go on when a worker does not find a file that the
driver has written. So it gets a file system that knows names and no contents: whoever is sent it knows the
names that were there then. No PC but the driver's needs the folder of the sweep.
"""

from __future__ import annotations

import io
from pathlib import PurePosixPath
from typing import Any

from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem


class NamesOnly(MemoryFileSystem):
    """Files without contents, in memory.

    Args:
        names: of files that are there.
    """

    cachable = False

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}  # its own: the class has one for all of a process
        self.pseudo_dirs = [""]
        for name in names:
            self._open(name, "wb")

    def __reduce__(self) -> tuple[Any, ...]:
        return NamesOnly, (tuple(self.store),)

    def info(self, path: str, **options: Any) -> Any:
        """As fsspec has it; a folder of a checkpoint is there, and empty, for whoever goes on from it."""
        if PurePosixPath(path).name.startswith("checkpoint_"):
            return {"name": self._strip_protocol(path), "size": 0, "type": "directory"}
        return super().info(path, **options)

    def _open(self, path: str, mode: str = "rb", *arguments: Any, **options: Any) -> Any:
        if "w" not in mode:
            return super()._open(path, mode, *arguments, **options)
        path = self._strip_protocol(path)
        self.store[path] = MemoryFile(self, path)
        return io.BytesIO()  # what is written goes with it


def file_system() -> FileSystem:
    """A new one, as Tune takes it."""
    return PyFileSystem(FSSpecHandler(NamesOnly()))
