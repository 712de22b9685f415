"""Prepared data on every PC of a cluster: copied to its disk once, or read from a shared folder.

The driver's PC always has all of it. PCs get the data before the first trial starts; a PC that joins later,
or has a damaged copy, gets it when a trial starts there.
"""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from filelock import FileLock

from sweeps.common import atomic_io
from sweeps.common.errors import PCUnfit
from sweeps.common.formatting import duration, size
from sweeps.ray_cluster import broadcast
from sweeps.storage.folder_copy import File, WrongChecksum, copy_file
from sweeps.training.data import dataset, shards
from sweeps.training.data.dataset import DataSet
from sweeps.training.data.shards import Manifest

Say = Callable[[str], None]


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
        """Its complete folder on this PC.

        Args:
            say: gets a message after a copy.

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
        free = shutil.disk_usage(next(near for near in (root, *root.parents) if near.exists())).free
        if missing > free:
            raise PCUnfit(f"the disk of {root} has no room: {size(missing)} needed, {size(free)} free")
        return missing

    def bring(self) -> int:
        """Copy the files that this PC lacks, and return their bytes. Others of its processes wait meanwhile.

        Raises:
            PCUnfit: its disk is full, a checksum is wrong, or the PC that has the data does not answer.
        """
        place = self._copy.parent
        fetch = partial(broadcast.read_file, self.node, f"{self.pc}, which has the prepared data,")
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
    return PreparedData(str(folder), files, platform.node(), is_copied, broadcast.here())
