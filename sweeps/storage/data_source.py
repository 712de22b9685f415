"""Files of one PC copied to others: prepared data, and the shards of checkpoints.

A file is written whole under another name, compared with its checksum and renamed. It keeps its time of
change, by which, with its size, it is known later.

Prepared data is copied to the disk of each PC once, or read from a shared folder. The driver's PC always has
all of it. PCs get the data before the first trial starts; a PC that joins later, or has a damaged copy, gets
it when a trial starts there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock

from sweeps.common import atomic_io
from sweeps.common.errors import PCUnfit
from sweeps.common.formatting import duration, size
from sweeps.ray_cluster import nodes
from sweeps.training.data import dataset, shards
from sweeps.training.data.dataset import DataSet
from sweeps.training.data.shards import Manifest

MAX_TRIES = 2
"""Before a checksum that is wrong means that the original is damaged."""
Fetch = Callable[[Path, int], Iterator[Any]]
"""Pieces of a file on another PC, from its path there and its size in bytes."""
Say = Callable[[str], None]


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


@dataclass(frozen=True)
class PreparedData:
    """A data set, for every PC of a sweep."""

    folder: str
    """On the driver's PC, which has it."""
    files: tuple[File, ...]
    """The manifest is the last one: without it a copy is incomplete."""
    pc: str
    """Name of the driver's PC."""
    is_copied: bool
    """Whether each PC gets a copy; else all see one folder."""
    node: str = ""
    """Ray's id of the driver's PC."""

    def here(self, say: Say) -> Path:
        """Its complete folder on this PC; `say` gets a message after a copy.

        Raises:
            PCUnfit: this PC can't have it.
        """
        if (folder := self._find()) is not None:
            return folder
        began, got = time.monotonic(), self.bring()
        if got:  # else another process of this PC has copied it
            took = duration(time.monotonic() - began)
            say(f"{size(got)} of prepared data copied to {platform.node()} first, in {took}")
        return self._copy

    def missing_bytes(self) -> int:
        """Bytes to copy to this PC.

        Raises:
            PCUnfit: its disk has no room for them, or it does not see the shared folder.
        """
        if self._find() is not None:
            return 0
        missing = sum(file.size_bytes for file in self.files if not file.is_in(self._copy))
        root = self._copy.parent.absolute()
        if missing > (free := atomic_io.free_bytes(root)):
            raise PCUnfit(f"the disk of {root} has no room: {size(missing)} needed, {size(free)} free")
        return missing

    def bring(self) -> int:
        """Copy the files that this PC lacks, and return their bytes. Others of its processes wait meanwhile.

        Raises:
            PCUnfit: its disk is full, a checksum is wrong, or the PC that has the data does not answer.
        """
        place = self._copy.parent
        fetch = partial(nodes.read_file, self.node, f"{self.pc}, which has the prepared data,")
        try:
            place.mkdir(parents=True, exist_ok=True)
            with FileLock(place / f".{self._copy.name}.lock", fallback_to_soft=False):
                if missing := self.missing_bytes():
                    for file in self.files:
                        if not file.is_in(self._copy):
                            copy_file(file, Path(self.folder), self._copy, fetch)
                return missing
        except WrongChecksum as error:
            remedy = "`sweeps prepare NAME --check` on that PC prints how to repair it"
            raise PCUnfit(f"{error}: the original, {self.folder}, is damaged. {remedy}") from None
        except OSError as error:
            if atomic_io.disk_is_full(error, place):
                raise PCUnfit(f"the disk of {place} is full") from None
            raise PCUnfit(f"{place}: {error.strerror or error}") from None

    def _find(self) -> Path | None:
        """The folder on this PC: its copy, or the original, which this PC may see; None: neither."""
        folders = [self._copy, Path(self.folder)] if self.is_copied else [Path(self.folder)]
        for folder in folders:
            if all(file.is_in(folder) for file in self.files):
                return folder
        if not self.is_copied:
            raise PCUnfit(f"{self.folder} is not the same as on {self.pc}: share it, or give --data copy")
        return None

    @property
    def _copy(self) -> Path:
        return dataset.root() / Path(self.folder).name


def local_data(data_set: DataSet) -> PreparedData:
    """A data set for this PC alone, of which no file is compared."""
    return PreparedData(str(data_set.folder), (), platform.node(), is_copied=False)


def cluster_data(data_set: DataSet, *, is_copied: bool) -> PreparedData:
    """A data set of this PC, for others to use.

    Raises:
        NotPrepared: it is not here.
    """
    folder = data_set.folder
    digests = {shard.file: shard.sha256 for shard in Manifest.read(folder).shards}
    digests[shards.MANIFEST] = atomic_io.sha256_of(folder / shards.MANIFEST)
    files = tuple(File.from_path(folder, *each) for each in digests.items())
    return PreparedData(str(folder), files, platform.node(), is_copied, nodes.here())
