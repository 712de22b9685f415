"""Prepared data on every PC of a cluster: copied to its disk once, or read from a shared folder.

The driver's PC always has all of it. PCs get the data before the first trial starts; a PC that joins later,
or has a damaged copy, gets it when a trial starts there.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sweeps.common.errors import PCUnfit
from sweeps.common.formatting import duration, size
from sweeps.ray_cluster import broadcast
from sweeps.storage import folder_copy
from sweeps.storage.folder_copy import Original
from sweeps.training.data import dataset, shards
from sweeps.training.data.dataset import DataSet
from sweeps.training.data.shards import Manifest

Say = Callable[[str], None]


@dataclass(frozen=True)
class PreparedData:
    """A data set, for every PC of a sweep."""

    original: Original
    pc: str
    """Name of the driver's PC, which has it."""
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
        return folder_copy.missing_bytes(self.original, self._copy) if self._find() is None else 0

    def bring(self) -> int:
        """Copy the bytes that this PC lacks, and return their number.

        Raises:
            PCUnfit: its disk is full, or the PC that has the data does not answer.
        """
        fetch = partial(broadcast.read_file, self.node, f"{self.pc}, which has the prepared data,")
        lock = self._copy.with_name(f".{self._copy.name}.lock")
        return folder_copy.bring(self.original, self._copy, lock, fetch)

    def _find(self) -> Path | None:
        if self.is_copied:
            return self.original.find(self._copy)
        folder = Path(self.original.folder)
        if self.original.missing_from(folder):
            raise PCUnfit(f"{folder} is not the same as on {self.pc}: share it, or give --data copy")
        return folder

    @property
    def _copy(self) -> Path:
        return dataset.root() / Path(self.original.folder).name


def local_data(data_set: DataSet) -> PreparedData:
    """A data set for this PC alone, of which no file is compared."""
    return PreparedData(Original(str(data_set.folder), ()), platform.node(), is_copied=False)


def cluster_data(data_set: DataSet, *, is_copied: bool) -> PreparedData:
    """A data set of this PC, for others to use.

    Raises:
        NotPrepared: it is not here.
    """
    sha256s = {shard.file: shard.sha256 for shard in Manifest.read(data_set.folder).shards}
    remedy = ". `sweeps prepare NAME --check` on that PC prints how to repair it"
    original = Original.from_folder(data_set.folder, sha256s, shards.MANIFEST, remedy)
    return PreparedData(original, platform.node(), is_copied, broadcast.here())
