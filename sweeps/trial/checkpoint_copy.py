"""Copies of a checkpoint between the PC of a trial's first worker and those of the other workers."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from sweeps.common import atomic_io
from sweeps.storage import folder_copy, folder_reader, scratch
from sweeps.storage.folder_copy import File, Original
from sweeps.training import checkpoint_store

HOLDER = "the PC of the first worker, which has the checkpoint,"


def original_of(checkpoint: Path) -> Original:
    """A checkpoint of this PC, to be copied to other PCs."""
    files = json.loads((checkpoint / checkpoint_store.MANIFEST).read_text())["files"]
    checksums = {name: sha256 for name, (_, sha256) in files.items()}
    return Original.of(checkpoint, checksums, checkpoint_store.MANIFEST)


class Folders:
    """The folders that this worker makes and removes on its PC; workers of one PC share them.

    Args:
        root: folder of the copies; None: the PC's folder of temporary files.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or Path(tempfile.gettempdir())
        self._made: list[tuple[Path, int]] = []
        """Each with the descriptor of its lock, which keeps other processes from removing it as left over."""

    def copy(self, original: Original, node: str) -> Path:
        """The folder of a checkpoint on this PC; copied unless this PC sees the original.

        Args:
            original: the checkpoint.
            node: Ray's id of the PC that has it.

        Raises:
            PCUnfit: the disk of this PC is full, or the other PC does not answer.
        """
        if not original.missing_from(Path(original.folder)):
            return Path(original.folder)
        key = hashlib.sha256(f"{original.folder}\n{original.files[-1].sha256}".encode()).hexdigest()[:16]
        top = self._root / f"{scratch.PREFIX}{key}"
        top.mkdir(exist_ok=True)
        with suppress(OSError):  # another worker of this PC has claimed it
            self._made.append((top, scratch.claim(top)))
        reader = functools.cache(lambda: folder_reader.start([original.folder], node))
        fetch = folder_reader.fetch_from(reader, original.folder, HOLDER)
        return folder_copy.bring(original, top / Path(original.folder).name, top / ".lock", fetch)

    def make(self, folder: Path) -> bool:
        """Make a folder; False if it exists."""
        top = folder
        while not top.parent.is_dir():
            top = top.parent
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            return False
        self._made.append((top, scratch.claim(top)))
        return True

    def clear(self) -> None:
        """Remove them all."""
        for top, claim in self._made:
            shutil.rmtree(top, ignore_errors=True)
            os.close(claim)
        self._made = []


def files_of(folder: Path) -> list[File]:
    """The files of a folder of this PC, with their checksums, to be copied to another PC."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [File.of(folder, str(path.relative_to(folder)), atomic_io.sha256_of(path)) for path in paths]
