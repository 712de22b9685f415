"""Checkpoints behind a network: `NAME/trial_0003/epoch_0009.tar`, one file each.

What `sweeps/training/checkpoint_store.py` has in a folder is packed into one file with its manifest, so that
it is there whole or not at all, and put through a door (`doors.py`). What is read is unpacked on this PC and
checked against its manifest before use. A storage that does not answer is tried again, ever more slowly.
"""

from __future__ import annotations

import math
import re
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from sweeps.common import atomic_io
from sweeps.common.formatting import duration
from sweeps.storage import scratch as storage_scratch
from sweeps.storage.backend import Door
from sweeps.storage.base import DISK_IS_FULL, Fill, Params, StorageError, numbers_in
from sweeps.training import checkpoint_store

ONCE_S: tuple[float, ...] = (0.5, 2)
"""Waits between tries where the sweep's driver waits, and all trials with it."""
TRAINING_S: tuple[float, ...] = (0.5, 2, 5, 10, 20)
"""Where a trial could train on without."""
NEEDED_S: tuple[float, ...] = (0.5, 2, 5, 10, 20, 40, 80, 160)
"""Where it could not: its start, and the weights at its end."""
ARCHIVE = ".tar"
_Answer = TypeVar("_Answer")


class Remote:
    """As `storage.Storage` has it. A process keeps one connection, and one checkpoint on its own disk.

    Args:
        door: to the storage.
        name: of the sweep: its place there.
        waits_s: seconds between tries, for all that is done; None: by what waits for it.
    """

    def __init__(self, door: Door, name: str, waits_s: Sequence[float] | None = None) -> None:
        self._door, self._name, self._waits_s = door, name, waits_s
        self._fs: Any = None
        self._scratch: Path | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process opens the door by itself."""
        return Remote, (self._door, self._name, self._waits_s)

    @property
    def where(self) -> str:
        """The place, in words."""
        return f"{self._door.url}/{self._name}"

    def write(self, number: int, epoch: int, fill: Fill, of: Params, *, is_last: bool = False) -> None:
        """As Storage has it."""
        archive = self._pack(epoch, fill, of)
        target = f"{self._folder(number)}/{archive.name}"
        self._put(archive, target, NEEDED_S if is_last else TRAINING_S)
        with suppress(StorageError):  # it is written; those that stay too long are removed the next time
            self._tried(lambda fs: self._drop_older(fs, number, epoch), ())
        self._clear()

    def newest(self, number: int, of: Params | None = None) -> tuple[Path | None, list[str]]:
        """As Storage has it."""
        faults: list[str] = []
        for epoch in self._tried(lambda fs: sorted(self._sizes(fs, number), reverse=True), NEEDED_S):
            found, fault = self._fetch(number, epoch, of)
            if found is not None:
                return found, faults
            faults.append(f"the checkpoint of epoch {epoch} is broken ({fault})")
        return None, faults

    def look(self, number: int, of: Params, at_most: float = math.inf) -> tuple[int | None, list[str]]:
        """As Storage has it."""
        return next((epoch for epoch in self.epochs(number) if epoch <= at_most), None), []

    def epochs(self, number: int) -> list[int]:
        """As Storage has it."""
        return self._tried(lambda fs: sorted(self._sizes(fs, number), reverse=True), ONCE_S)

    def numbers(self) -> list[int]:
        """As Storage has it."""
        listed = self._tried(lambda fs: _ls(fs, self._root), ONCE_S)
        return numbers_in(_name(entry) for entry in listed)

    def remove(self, number: int, epoch: int | None = None) -> None:
        """As Storage has it."""

        def remove(fs: Any) -> None:
            with suppress(FileNotFoundError):
                if epoch is None:
                    fs.rm(self._folder(number), recursive=True)
                else:
                    fs.rm_file(self._archive(number, epoch))

        self._tried(remove, ONCE_S)

    def tidy(self) -> None:
        """As Storage has it."""

        def tidy(fs: Any) -> None:
            for number in numbers_in(_name(entry) for entry in _ls(fs, self._root)):
                for entry in _ls(fs, self._folder(number)):
                    if _name(entry).startswith("."):
                        fs.rm_file(entry["name"])

        self._tried(tidy, ONCE_S)

    def make(self) -> None:
        """As Storage has it."""

        def make(fs: Any) -> None:
            with _nothing_missing():
                self._door.make(fs)

        self._tried(make, ())

    def write_note(self, name: str, text: str) -> None:
        """As Storage has it."""
        file = self._cleared() / name
        file.write_text(text)
        self._put(file, f"{self._root}/{name}", ())
        self._clear()

    def read_note(self, name: str) -> str:
        """As Storage has it."""
        content: bytes = self._tried(lambda fs: fs.cat_file(f"{self._root}/{name}"), ())
        return content.decode()

    def remove_note(self, name: str) -> None:
        """As Storage has it."""
        self._tried(lambda fs: fs.rm_file(f"{self._root}/{name}"), ())

    @property
    def _root(self) -> str:
        return f"{self._door.root}/{self._name}"

    def _folder(self, number: int) -> str:
        return f"{self._root}/{checkpoint_store.folder_of(Path(), number).name}"

    def _archive(self, number: int, epoch: int) -> str:
        return f"{self._folder(number)}/epoch_{epoch:04d}{ARCHIVE}"

    def _sizes(self, fs: Any, number: int) -> dict[int, int]:
        """Epochs of the checkpoints of a trial, and their sizes in bytes."""
        found = ((re.fullmatch(rf"epoch_(\d+){ARCHIVE}", _name(e)), e) for e in _ls(fs, self._folder(number)))
        return {int(match[1]): entry["size"] for match, entry in found if match}

    def _drop_older(self, fs: Any, number: int, epoch: int) -> None:
        """Those that are too old, and those behind it: broken, as the trial went on from before them."""
        there = sorted(self._sizes(fs, number), reverse=True)
        older = [other for other in there if other <= epoch]
        for other in [*(other for other in there if other > epoch), *older[checkpoint_store.KEPT :]]:
            fs.rm_file(self._archive(number, other))

    def _pack(self, epoch: int, fill: Fill, of: Params) -> Path:
        """The one file of a checkpoint, on this PC."""
        folder = self._cleared() / f"epoch_{epoch:04d}"
        archive = folder.with_suffix(ARCHIVE)
        folder.mkdir()
        try:
            fill(folder)
            checkpoint_store.seal(folder, of)
            with tarfile.open(archive, "w") as packed:
                packed.add(folder, folder.name)
            shutil.rmtree(folder)
        except Exception as error:  # a hook of the user's may raise anything
            is_full = atomic_io.disk_is_full(error, folder.parent)
            self._clear()
            if is_full:
                raise StorageError(f"{DISK_IS_FULL} where checkpoints are packed ($TMPDIR)") from error
            raise
        return archive

    def _put(self, file: Path, target: str, waits_s: Sequence[float]) -> None:
        def put(fs: Any) -> None:
            with _nothing_missing():
                self._door.put(fs, file, target)

        self._tried(put, waits_s)

    def _fetch(self, number: int, epoch: int, of: Params | None) -> tuple[Path | None, str | None]:
        """A checkpoint as a folder of this PC; what is wrong with it, where something is."""
        scratch = self._cleared()
        archive, folder = scratch / f"epoch_{epoch:04d}{ARCHIVE}", scratch / f"epoch_{epoch:04d}"
        remote = self._archive(number, epoch)
        try:
            self._tried(lambda fs: fs.get_file(remote, str(archive)), NEEDED_S)
            with tarfile.open(archive) as packed:
                packed.extractall(scratch, filter="data")
            archive.unlink()
        except FileNotFoundError:
            return None, "it was removed meanwhile"
        except (tarfile.TarError, EOFError) as error:
            return None, f"it can't be read: {error}"
        fault = checkpoint_store.fault(folder, of)
        return (folder if fault is None else None), fault

    def _tried(self, action: Callable[[Any], _Answer], waits_s: Sequence[float]) -> _Answer:
        """Do it, over a new connection each time that it fails.

        Raises:
            FileNotFoundError: what was asked for is not there.
            StorageError: it failed each time, or it will.
        """
        waits = list(waits_s if self._waits_s is None else self._waits_s)
        began = time.monotonic()
        while True:
            try:
                if self._fs is None:
                    self._fs = self._door.open()
                return action(self._fs)
            except FileNotFoundError:
                raise
            except Exception as error:  # sshfs and asyncssh raise of a lost host whatever they were at
                reason, is_lasting = self._door.why(error, self._fs)
                self._fs = None
                if is_lasting or not waits:
                    tried = f" (tried for {duration(time.monotonic() - began)})" if waits_s else ""
                    raise StorageError(f"{self._door.url}: {reason}{tried}") from error
            time.sleep(waits.pop(0))

    def _cleared(self) -> Path:
        """A folder of this process alone, empty."""
        self._clear()
        if self._scratch is None or not self._scratch.is_dir():
            self._scratch = storage_scratch.new_folder()
        return self._scratch

    def _clear(self) -> None:
        if self._scratch is not None:
            for left in self._scratch.iterdir():
                shutil.rmtree(left) if left.is_dir() else left.unlink()


@contextmanager
def _nothing_missing() -> Iterator[None]:
    """Who writes looks for nothing: what is not there then is a fault like any other."""
    try:
        yield
    except FileNotFoundError as error:
        raise OSError(error.strerror or str(error)) from error


def _ls(fs: Any, folder: str) -> list[dict[str, Any]]:
    """What is in a folder; nothing where there is none."""
    try:
        entries: list[dict[str, Any]] = fs.ls(folder, detail=True)
    except FileNotFoundError:
        return []
    return entries


def _name(entry: dict[str, Any]) -> str:
    return str(entry["name"]).rstrip("/").rpartition("/")[2]
