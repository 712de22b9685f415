"""The disk under the results: what a sweep takes of it, and a pause before it is full."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from sweeps.common.formatting import GB, size
from sweeps.training import checkpoint_store

CHECK_EVERY_S = 1.0


class Disk:
    """Holds a sweep while there is too little space for what it is about to write.

    Trials end the epoch that they train and wait warm; nothing is lost, and with space the sweep goes
    on by itself.

    Args:
        folder: of the sweep.
        min_free_gb: space to leave to others.
        slots: trials at a time; each may be about to write a checkpoint.
        free: bytes that are free on the disk of a folder.
    """

    def __init__(
        self,
        folder: Path,
        min_free_gb: float,
        slots: int,
        free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    ) -> None:
        self._folder = folder
        self._least = min_free_gb * GB
        self._slots = slots
        self._free = free
        self._largest_checkpoint = 0
        self._taken = 0
        self._measure_next = 0.0

    def wait(self, say: Callable[[str], None], is_over: Callable[[], bool]) -> None:
        """Come back when there is space enough, or when the sweep is to end."""
        if self._has_room() or is_over():
            return
        say(
            f"PAUSED: {size(self._free(self._folder))} free on the disk of {self._folder}, "
            f"{size(self._needed())} wanted. Free some space and the sweep goes on; "
            "Ctrl-C ends it, to be resumed."
        )
        while not self._has_room():
            time.sleep(CHECK_EVERY_S)
            if is_over():
                return
        say(f"Going on: {size(self._free(self._folder))} free.")

    def measure(self, number: int) -> None:
        """Learn how large a checkpoint is, from the newest one of a trial."""
        for newest in checkpoint_store.all_of(checkpoint_store.folder_of(self._folder, number))[:1]:
            self._largest_checkpoint = max(self._largest_checkpoint, _bytes_of(newest))

    @property
    def in_words(self) -> str:
        """What the sweep takes, and what is free."""
        began = time.monotonic()
        if began >= self._measure_next:
            self._taken = _bytes_of(self._folder)
            now = time.monotonic()
            self._measure_next = now + max(10.0, 100 * (now - began))
        return f"disk {size(self._taken)} taken, {size(self._free(self._folder))} free"

    def _needed(self) -> float:
        return self._least + self._slots * self._largest_checkpoint

    def _has_room(self) -> bool:
        return self._free(self._folder) >= self._needed()


def _bytes_of(folder: Path) -> int:
    """All files below; one that is removed meanwhile counts nothing."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(base) / name).lstat().st_size
            except FileNotFoundError:
                continue
    return total
