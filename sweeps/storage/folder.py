"""Checkpoints in a folder."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sweeps.common import atomic_io
from sweeps.common.formatting import shown_path
from sweeps.storage.protocol import DISK_IS_FULL, Fill, Params, StorageError, new_name, numbers_in
from sweeps.training import checkpoint_store


@dataclass(frozen=True)
class Folder:
    """A Storage in a folder: one that all PCs see, or on a single PC the sweep's own."""

    root: Path

    @property
    def where(self) -> str:
        return shown_path(self.root)

    def write(self, number: int, epoch: int, fill: Fill, of: Params, *, is_last: bool = False) -> int:
        folder = checkpoint_store.folder_of(self.root, number)
        try:
            return checkpoint_store.bytes_of(checkpoint_store.write(folder, epoch, fill, of))
        except Exception as error:  # a hook of the user's may raise anything: that is not the storage's fault
            if atomic_io.disk_is_full(error, folder):
                raise StorageError(DISK_IS_FULL) from error
            name = new_name()
            with self._as_storage_errors():  # is the folder itself writable now?
                self.write_note(name, "")
                self.remove_note(name)
            raise

    def newest(self, number: int, of: Params | None = None) -> tuple[Path | None, list[str]]:
        with self._as_storage_errors():
            self.root.stat()  # a missing folder is not a trial without checkpoints
        return checkpoint_store.newest(checkpoint_store.folder_of(self.root, number), of)

    def look(self, number: int, of: Params, at_most: float = math.inf) -> tuple[int | None, list[str]]:
        found, faults = checkpoint_store.newest(checkpoint_store.folder_of(self.root, number), of, at_most)
        return (checkpoint_store.epoch_of(found) if found else None), faults

    def epochs(self, number: int) -> list[int]:
        there = checkpoint_store.all_of(checkpoint_store.folder_of(self.root, number))
        return list(dict.fromkeys(map(checkpoint_store.epoch_of, there)))  # a killed process may leave two

    def numbers(self) -> list[int]:
        return numbers_in(path.name for path in (self.root / checkpoint_store.FOLDER).glob("trial_*"))

    def remove(self, number: int, epoch: int | None = None) -> None:
        folder = checkpoint_store.folder_of(self.root, number)
        if epoch is None:
            checkpoint_store.remove(folder)
            return
        for path in checkpoint_store.all_of(folder):
            if checkpoint_store.epoch_of(path) == epoch:
                checkpoint_store.remove(path)

    def tidy(self) -> None:
        checkpoint_store.tidy(self.root)

    def make(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)

    def write_note(self, name: str, text: str) -> None:
        atomic_io.write(self.root / name, text)

    def read_note(self, name: str) -> str:
        return (self.root / name).read_text()

    def remove_note(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    @contextmanager
    def _as_storage_errors(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise StorageError(f"{self.where} is missing: all PCs must see that folder") from error
        except OSError as error:
            raise StorageError(f"{self.where}: {error.strerror or error}") from error
