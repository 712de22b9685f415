"""Checkpoints on a server: `NAME/trial_0003/epoch_0009.tar`, one file each.

The folder that `training/checkpoints/checkpoint_store.py` would write is packed into one file with
its manifest. A downloaded one is unpacked on this PC and compared with its manifest. Failures are retried
with longer waits.

Servers are file systems of fsspec: S3 by Arrow, SFTP by `sshfs`, as fsspec's own SFTP accepts any host key,
and hung under load. Credentials come from the SSH agent, ~/.ssh, the environment or a profile of AWS.
"""

from __future__ import annotations

import re
import shutil
import tarfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sweeps.common import atomic_io, local_dirs
from sweeps.common.formatting import duration
from sweeps.storage.protocol import DISK_IS_FULL, Fill, Params, StorageError, numbers_in
from sweeps.training.checkpoints import checkpoint_store

CONNECT_S, SILENT_S = 10, 20
"""Longest wait for a host to answer, and for one that has answered before."""
ONCE_S: tuple[float, ...] = (0.5, 2)
"""Waits between tries while the sweep's driver, and so all trials, wait."""
TRAINING_S: tuple[float, ...] = (0.5, 2, 5, 10, 20)
"""For a checkpoint that the trial can do without."""
NEEDED_S: tuple[float, ...] = (0.5, 2, 5, 10, 20, 40, 80, 160)
"""For one that it can't do without: at its start, and the weights at its end."""
ARCHIVE = ".tar"
_Answer = TypeVar("_Answer")


class Backend(Protocol):
    """A server with a URL."""

    @property
    def url(self) -> str:
        """As the user gave it."""

    @property
    def root(self) -> str:
        """Its path in the file system."""

    def open(self) -> Any:
        """The file system, connected."""

    def upload(self, fs: Any, file: Path, target: str) -> None:
        """Copy a file of this PC; it has its name there only when it is complete."""

    def diagnose(self, error: Exception, fs: Any) -> tuple[str, bool]:
        """The reason of a failure, and whether trying again is useless."""

    def make(self, fs: Any) -> None:
        """Make the folder `root`."""


class Remote:
    """A Storage on a server. A process keeps one connection, and one checkpoint on its own disk.

    Args:
        backend: the server.
        name: of the sweep, and of its folder there.
        waits_s: seconds between tries, whatever is done; None: as the action needs.
    """

    def __init__(self, backend: Backend, name: str, waits_s: Sequence[float] | None = None) -> None:
        self._backend, self._name, self._waits_s = backend, name, waits_s
        self._root = f"{backend.root}/{name}"
        self._fs: Any = None
        self._scratch: Path | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process connects by itself."""
        return Remote, (self._backend, self._name, self._waits_s)

    @property
    def where(self) -> str:
        return f"{self._backend.url}/{self._name}"

    def write(self, number: int, epoch: int, fill: Fill, params: Params, *, is_last: bool = False) -> int:
        archive = self._pack(epoch, fill, params)
        size = archive.stat().st_size
        target, waits_s = f"{self._folder(number)}/{archive.name}", NEEDED_S if is_last else TRAINING_S
        # Before it is written: where this PC sleeps meanwhile, another one goes on with the trial.
        there = self._retry(lambda fs: self._epochs_in(fs, number), waits_s)
        self._upload(archive, target, waits_s)
        with suppress(StorageError):  # it is written; the next one removes what is too old
            self._retry(lambda fs: self._remove_older(fs, number, epoch, there), ())
        self._empty_scratch()
        return size

    def newest(self, number: int, params: Params | None = None) -> tuple[Path | None, list[str]]:
        faults: list[str] = []
        for epoch in self._retry(lambda fs: self._epochs_in(fs, number), NEEDED_S):
            found, fault = self._download(number, epoch, params)
            if found is not None:
                return found, faults
            faults.append(f"the checkpoint of epoch {epoch} is damaged ({fault})")
        return None, faults

    def forget_downloads(self) -> None:
        """Empty the temporary folder of this process, if it has one."""
        if self._scratch is not None:
            self._empty_scratch()

    def epochs(self, number: int) -> list[int]:
        return self._retry(lambda fs: self._epochs_in(fs, number), ONCE_S)

    def numbers(self) -> list[int]:
        return numbers_in(self._retry(lambda fs: _names(fs, self._root), ONCE_S))

    def remove(self, number: int, epoch: int | None = None) -> None:
        def remove(fs: Any) -> None:
            if epoch is None:
                fs.rm(self._folder(number), recursive=True)
            else:
                fs.rm_file(self._archive(number, epoch))

        with suppress(FileNotFoundError):
            self._retry(remove, ONCE_S)

    def tidy(self) -> None:
        def tidy(fs: Any) -> None:
            for folder in map(self._folder, numbers_in(_names(fs, self._root))):
                for name in _names(fs, folder):
                    if name.startswith("."):
                        _remove_file(fs, f"{folder}/{name}")

        self._retry(tidy, ONCE_S)

    def make(self) -> None:
        self._retry(self._backend.make, (), is_read=False)

    def write_note(self, name: str) -> None:
        file = self._empty_scratch() / name
        file.write_text(name)
        self._upload(file, f"{self._root}/{name}", ())
        self._empty_scratch()

    def read_note(self, name: str) -> str:
        content: bytes = self._retry(lambda fs: fs.cat_file(f"{self._root}/{name}"), ())
        return content.decode()

    def remove_note(self, name: str) -> None:
        self._retry(lambda fs: fs.rm_file(f"{self._root}/{name}"), ())

    def _folder(self, number: int) -> str:
        return f"{self._root}/{checkpoint_store.folder_of(Path(), number).name}"

    def _archive(self, number: int, epoch: int) -> str:
        return f"{self._folder(number)}/epoch_{epoch:04d}{ARCHIVE}"

    def _epochs_in(self, fs: Any, number: int) -> list[int]:
        found = (re.fullmatch(rf"epoch_(\d+){ARCHIVE}", name) for name in _names(fs, self._folder(number)))
        return sorted((int(match[1]) for match in found if match), reverse=True)

    def _remove_older(self, fs: Any, number: int, epoch: int, there: Sequence[int]) -> None:
        """Of those that were there, also later ones: they were broken, as the trial has resumed from an
        earlier one."""
        older = [other for other in there if other < epoch]
        for other in [*(other for other in there if other > epoch), *older[checkpoint_store.KEPT - 1 :]]:
            _remove_file(fs, self._archive(number, other))

    def _pack(self, epoch: int, fill: Fill, params: Params) -> Path:
        """The file of a checkpoint, on this PC."""
        folder = self._empty_scratch() / f"epoch_{epoch:04d}"
        archive = folder.with_suffix(ARCHIVE)
        try:
            folder.mkdir()
            fill(folder)
            checkpoint_store.seal(folder, params)
            with tarfile.open(archive, "w") as packed:
                packed.add(folder, folder.name)
            shutil.rmtree(folder)
        except Exception as error:  # a hook of the user's may raise anything
            is_full = atomic_io.disk_is_full(error, folder.parent)
            self._empty_scratch()
            if is_full:
                raise StorageError(f"{DISK_IS_FULL} where checkpoints are packed ($TMPDIR)") from error
            raise
        return archive

    def _upload(self, file: Path, target: str, waits_s: Sequence[float]) -> None:
        self._retry(lambda fs: self._backend.upload(fs, file, target), waits_s, is_read=False)

    def _download(self, number: int, epoch: int, params: Params | None) -> tuple[Path | None, str | None]:
        """A checkpoint as a folder of this PC, or its fault."""
        folder = self._empty_scratch() / f"epoch_{epoch:04d}"
        archive, remote = folder.with_suffix(ARCHIVE), self._archive(number, epoch)
        try:
            self._retry(lambda fs: fs.get_file(remote, str(archive)), NEEDED_S)
            with tarfile.open(archive) as packed:
                packed.extractall(folder.parent, filter="data")
            archive.unlink()
        except FileNotFoundError:
            return None, "it was removed meanwhile"
        except (tarfile.TarError, EOFError) as error:
            return None, f"it can't be read: {error}"
        except OSError as error:
            if not atomic_io.disk_is_full(error, folder.parent):
                raise
            self._empty_scratch()
            raise StorageError(f"{DISK_IS_FULL} where checkpoints are unpacked ($TMPDIR)") from error
        fault = checkpoint_store.fault(folder, params)
        return (folder if fault is None else None), fault

    def _retry(
        self, action: Callable[[Any], _Answer], waits_s: Sequence[float], *, is_read: bool = True
    ) -> _Answer:
        """The result of an action; a failed one is tried again over a new connection. That a file is missing
        is an answer to a read, and a failure of a write."""
        waits = list(waits_s if self._waits_s is None else self._waits_s)
        began = time.monotonic()
        while True:
            try:
                if self._fs is None:
                    self._fs = self._backend.open()
                return action(self._fs)
            except Exception as error:  # sshfs and asyncssh raise of a lost host whatever they were at
                if is_read and isinstance(error, FileNotFoundError):
                    raise
                reason, is_lasting = self._backend.diagnose(error, self._fs)
                self._fs = None
                if is_lasting or not waits:
                    tried = f" (tried for {duration(time.monotonic() - began)})" if waits_s else ""
                    raise StorageError(f"{self._backend.url}: {reason}{tried}") from error
            time.sleep(waits.pop(0))

    def _empty_scratch(self) -> Path:
        """The temporary folder of this process, empty."""
        try:
            if self._scratch is None or not self._scratch.is_dir():
                self._scratch = local_dirs.new_claimed_folder("sweeps-checkpoint-")[0]
            for left in self._scratch.iterdir():
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        except OSError as error:  # the trial is not at fault
            why = error.strerror or error
            raise StorageError(f"no folder for checkpoints on their way ($TMPDIR): {why}") from error
        return self._scratch


def _names(fs: Any, folder: str) -> list[str]:
    """Names in a folder; [] where there is none."""
    with suppress(FileNotFoundError):
        return [str(entry["name"]).rstrip("/").rpartition("/")[2] for entry in fs.ls(folder, detail=True)]
    return []


def _remove_file(fs: Any, path: str) -> None:
    """Remove a file that was listed. A process that has lost its driver may have renamed or removed it."""
    with suppress(FileNotFoundError):
        fs.rm_file(path)


def copy_to_server(fs: Any, file: Path, target: str) -> None:
    """Copy a file, and compare its size."""
    with file.open("rb") as source, fs.open(target, "wb") as content:
        shutil.copyfileobj(source, content, 2**22)
    there, size = fs.info(target)["size"], file.stat().st_size
    if there != size:
        raise OSError(f"{target}: {there:,} of {size:,} bytes arrived")
