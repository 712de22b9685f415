"""Copy files of one PC to another: prepared data, and the shards of checkpoints.

A file is written whole under another name, compared with its checksum and renamed. It keeps its time of
change, by which, with its size, it is known later.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.common import atomic_io

MAX_TRIES = 2
"""Before a checksum that is wrong means that the original is damaged."""
Fetch = Callable[[Path, int], Iterator[Any]]
"""Pieces of a file on another PC, from its path there and its size in bytes."""


class WrongChecksum(OSError):
    """What arrived is not what was sent."""


@dataclass(frozen=True)
class File:
    """A file of a folder."""

    name: str
    """Its path within the folder."""
    size_bytes: int
    time_ns: int
    """When its content changed."""
    sha256: str

    @classmethod
    def from_path(cls, folder: Path, name: str, sha256: str) -> File:
        """A file of this PC."""
        found = (folder / name).stat()
        return cls(name, found.st_size, found.st_mtime_ns, sha256)

    def is_in(self, folder: Path) -> bool:
        """Whether a folder of this PC has it, unchanged."""
        try:
            found = (folder / self.name).stat()
        except OSError:
            return False
        tick_ns = 2 * 10**9  # coarsest resolution of a file system's times of change
        return found.st_size == self.size_bytes and abs(found.st_mtime_ns - self.time_ns) < tick_ns


def copy_file(file: File, source: Path, folder: Path, fetch: Fetch) -> None:
    """Copy a file of the folder `source`, on another PC, into a folder of this PC, twice where it arrives
    with a wrong checksum.

    Raises:
        OSError: it can't be written, or arrives with another checksum.
    """
    path = folder / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(MAX_TRIES):
        digest = hashlib.sha256()
        with contextlib.suppress(WrongChecksum), atomic_io.atomic_write(path) as part:
            with part.open("wb") as content:
                for piece in fetch(source / file.name, file.size_bytes):
                    content.write(piece)
                    digest.update(piece)
            if digest.hexdigest() != file.sha256:
                raise WrongChecksum
            os.utime(part, ns=(file.time_ns, file.time_ns))
            return
    raise WrongChecksum(f"{file.name} arrived {MAX_TRIES} times with a wrong checksum")
