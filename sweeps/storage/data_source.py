"""Prepared data on every PC of a cluster: copied to its disk once, or read from a shared folder.

The driver's PC always has all of it, and a process there serves its files. PCs get the data before the first
trial starts; a PC that joins later, or has a damaged copy, gets it when a trial starts there.
"""

from __future__ import annotations

import functools
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import ray

from sweeps.cluster import broadcast
from sweeps.common.errors import PCUnfit
from sweeps.common.formatting import duration, size
from sweeps.storage import folder_copy, folder_reader
from sweeps.storage.folder_copy import Original, Place
from sweeps.training.data import dataset, shards
from sweeps.training.data.dataset import DataSet
from sweeps.training.data.shards import Manifest

READER = "reader of prepared data"
"""Ray's name of the process that serves it, in the namespace of the sweep."""
REPORT_S = 0.5
"""Seconds between two reports of progress."""
Say = Callable[[str], None]


class DataSource(Protocol):
    """How a PC gets a data set."""

    def here(self, say: Say) -> Path:
        """Its complete folder on this PC.

        Args:
            say: gets a message after a copy.

        Raises:
            PCUnfit: this PC can't have it.
        """


@dataclass(frozen=True)
class LocalData:
    """A DataSource for a sweep on one PC."""

    folder: Path

    def here(self, say: Say) -> Path:
        return self.folder


@dataclass(frozen=True)
class SharedData:
    """A DataSource in a folder that all PCs see."""

    original: Original
    pc: str
    """Name of the driver's PC."""

    def here(self, say: Say) -> Path:
        """The folder; its manifest and the sizes of its files are compared."""
        folder = Path(self.original.folder)
        try:
            is_there = (folder / shards.MANIFEST).read_text() == self.original.manifest
            Manifest.read(folder)
        except (OSError, ValueError, shards.NotPrepared):
            is_there = False
        if not is_there:
            raise PCUnfit(f"{folder} is not the same as on {self.pc}: share it, or give --data copy")
        return folder


@dataclass(frozen=True)
class CopiedData:
    """A DataSource on the disk of each PC."""

    original: Original
    lock: str
    """Name of the file that is locked while a process of a PC writes the data."""
    pc: str
    """Name of the driver's PC."""

    def here(self, say: Say) -> Path:
        if (folder := folder_copy.find(self.original, self.place)) is not None:
            return folder
        began, got = time.monotonic(), self.bring()
        if got:
            took = duration(time.monotonic() - began)
            say(f"{size(got)} of prepared data copied to {platform.node()} first, in {took}")
        return self.place.folder

    def missing_bytes(self) -> int:
        """Bytes that this PC lacks.

        Raises:
            PCUnfit: its disk has no room for them.
        """
        return folder_copy.missing_bytes(self.original, self.place)

    def bring(self) -> int:
        """Copy the bytes that this PC lacks, and return their number.

        Raises:
            PCUnfit: its disk is full, or the PC that has the data does not answer.
        """
        got = reported = 0
        reported_at = time.monotonic()
        reader = functools.cache(lambda: ray.get_actor(READER))

        def report(bytes_: int) -> None:
            nonlocal got, reported, reported_at
            got += bytes_
            if time.monotonic() - reported_at > REPORT_S:
                reader().note.remote(broadcast.here(), got - reported)
                reported, reported_at = got, time.monotonic()

        holder = f"{self.pc}, which has the prepared data,"
        fetch = folder_reader.fetch_from(reader, self.original.folder, holder)
        folder_copy.bring(self.original, self.place, fetch, report)
        if got > reported:
            reader().note.remote(broadcast.here(), got - reported)
        return got

    @property
    def place(self) -> Place:
        root = dataset.root()
        folder = root / Path(self.original.folder).name
        return Place(root, folder, root / self.lock, root / dataset.CHECKSUMS_FILE)


def copied(data_set: DataSet, pc: str) -> CopiedData:
    """A data set of this PC, for others to copy.

    Raises:
        NotPrepared: it is not here.
    """
    return CopiedData(original_of(data_set), data_set.lock_file.name, pc)


def original_of(data_set: DataSet) -> Original:
    """A data set of this PC, described for the others.

    Raises:
        NotPrepared: it is not here.
    """
    splits = Manifest.read(data_set.folder).splits.values()
    sha256s = {shard.file: shard.sha256 for split in splits for shard in split}
    remedy = ". `sweeps prepare NAME --check` on that PC prints how to repair it"
    return Original.of(data_set.folder, sha256s, shards.MANIFEST, remedy)
