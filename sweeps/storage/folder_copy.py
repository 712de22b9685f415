"""Copy a folder of one PC to another: prepared data, and checkpoints of trials with several workers.

A file is written whole under another name, compared with its checksum and renamed. It keeps its time of
change, by which, with its size, it is known later. The manifest comes last: without it the folder is
incomplete.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from sweeps.common import atomic_io
from sweeps.common.errors import PCUnfit
from sweeps.common.formatting import size

Fetch = Callable[[Path, int], Iterator[Any]]
"""Pieces of a file on another PC, from its path there and its size in bytes."""
FILE_TIME_TICK_NS = 2 * 10**9
"""Coarsest resolution of a file system's times of change."""


class CannotCopy(PCUnfit):
    """Why this PC can't have the folder, in one line."""


class WrongChecksum(OSError):
    """What arrived is not what was sent."""


@dataclass(frozen=True)
class File:
    """A file of the original."""

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
        return found.st_size == self.size_bytes and abs(found.st_mtime_ns - self.time_ns) < FILE_TIME_TICK_NS


@dataclass(frozen=True)
class Original:
    """A complete folder, as its PC describes it to others."""

    folder: str
    files: tuple[File, ...]
    """The manifest is the last one."""
    remedy: str = ""
    """What to do where a file is damaged: the end of a sentence."""

    @classmethod
    def from_folder(
        cls, folder: Path, sha256s: Mapping[str, str], manifest: str, remedy: str = ""
    ) -> Original:
        """A folder of this PC.

        Args:
            folder: its path.
            sha256s: name of each file, without the manifest, to its checksum.
            manifest: name of the manifest.
            remedy: see above.
        """
        digests = {**sha256s, manifest: atomic_io.sha256_of(folder / manifest)}
        return cls(str(folder), tuple(File.from_path(folder, *each) for each in digests.items()), remedy)

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)

    def missing_from(self, folder: Path) -> list[File]:
        """The files that a folder of this PC lacks."""
        return [file for file in self.files if not file.is_in(folder)]

    def find(self, copy: Path) -> Path | None:
        """The complete folder on this PC: its copy, or the original, which this PC sees; None: neither."""
        return next((each for each in (copy, Path(self.folder)) if not self.missing_from(each)), None)


def missing_bytes(original: Original, copy: Path) -> int:
    """Bytes that this PC lacks.

    Raises:
        CannotCopy: its disk has no room for them.
    """
    if original.find(copy) is not None:
        return 0
    missing = sum(file.size_bytes for file in original.missing_from(copy))
    root = copy.parent.absolute()
    free = shutil.disk_usage(next(near for near in (root, *root.parents) if near.exists())).free
    if missing > free:
        raise CannotCopy(f"the disk of {root} has no room: {size(missing)} needed, {size(free)} free")
    return missing


def bring(original: Original, copy: Path, lock: Path, fetch: Fetch) -> int:
    """Fetch the files that this PC lacks, and return their bytes. Other processes of the PC wait meanwhile.

    Args:
        original: the folder to copy.
        copy: where it goes.
        lock: held by the one process that writes the copy.
        fetch: reads the original.

    Raises:
        CannotCopy: the disk is full, or a checksum is wrong.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, fallback_to_soft=False):
            if needed := missing_bytes(original, copy):  # raises if there is no room
                for file in original.missing_from(copy):
                    copy_file(file, Path(original.folder), copy, fetch)
            return needed
    except WrongChecksum as error:
        raise CannotCopy(f"{error}: the original, {original.folder}, is damaged{original.remedy}") from None
    except OSError as error:
        if atomic_io.disk_is_full(error, copy.parent):
            raise CannotCopy(f"the disk of {copy.parent} is full") from None
        raise CannotCopy(f"{copy.parent}: {error.strerror or error}") from None


def copy_file(file: File, source: Path, folder: Path, fetch: Fetch) -> None:
    """Copy a file of the folder `source`, on another PC, into a folder of this PC.

    Raises:
        OSError: it can't be written, or arrives with another checksum.
    """
    path = folder / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with atomic_io.atomic_write(path) as part:
        with part.open("wb") as content:
            for piece in fetch(source / file.name, file.size_bytes):
                content.write(piece)
                digest.update(piece)
        if digest.hexdigest() != file.sha256:
            raise WrongChecksum(f"{file.name} arrived with a wrong checksum")
        os.utime(part, ns=(file.time_ns, file.time_ns))
