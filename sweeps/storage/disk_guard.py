"""The disk of the results: the space that a sweep uses, and a pause before the disk is full."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sweeps.common.formatting import GB, size


class TimeShare:
    """When work is due that may take a share of the time, as measured.

    Args:
        share: of the time, that the work may take.
        least_s: seconds between two turns of it, at least.
        first_s: seconds until its first turn.
        clock: in seconds.
    """

    def __init__(
        self, share: float, least_s: float, first_s: float = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._share, self._least_s, self._clock = share, least_s, clock
        self._due = clock() + first_s

    def is_due(self) -> bool:
        """Whether the work may be done now."""
        return self._clock() >= self._due

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Measure the work of a block: the next one is due when this one is the given share of the time."""
        began = self._clock()
        try:
            yield
        finally:
            now = self._clock()
            self._due = now + max(self._least_s, (now - began) / self._share)


class Disk:
    """Pauses a sweep while there is too little space for its next checkpoints.

    Trials finish their epoch and wait in their processes; the sweep continues when there is space again.

    Args:
        folder: of the sweep.
        min_free_gb: space to leave free.
        slots: trials at a time; each may be about to write a checkpoint.
        free: free bytes on the disk of a folder.
        checkpoint_bytes: size of the largest checkpoint there so far.
    """

    def __init__(
        self,
        folder: Path,
        min_free_gb: float,
        slots: int,
        free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
        checkpoint_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        self._folder = folder
        self._least = min_free_gb * GB
        self._slots = slots
        self._free = free
        self._checkpoint_bytes = checkpoint_bytes
        self._taken = 0
        self._measuring = TimeShare(0.01, least_s=10)

    def wait(self, say: Callable[[str], None], is_over: Callable[[], bool]) -> None:
        """Return when there is enough space, or when the sweep is to end."""
        if self._has_room() or is_over():
            return
        say(
            f"PAUSED: the disk of {self._folder} has {size(self._free(self._folder))} free, and "
            f"{size(self._needed())} is needed. Free some space and the sweep continues. "
            "Ctrl-C ends it; it can be resumed."
        )
        while not self._has_room():
            time.sleep(1)
            if is_over():
                return
        say(f"Continuing: {size(self._free(self._folder))} free.")

    def in_words(self, is_last: bool = False) -> str:
        """`disk 3.4 MB used, 250 GB free`; but for the last time measured rarely enough to take 1 % of the
        time."""
        if is_last or self._measuring.is_due():
            with self._measuring.taken():
                self._taken = _bytes_of(self._folder)
        return f"disk {size(self._taken)} used, {size(self._free(self._folder))} free"

    def _needed(self) -> float:
        return self._least + self._slots * self._checkpoint_bytes()

    def _has_room(self) -> bool:
        return self._free(self._folder) >= self._needed()


def _bytes_of(folder: Path) -> int:
    """All files below; one that is removed meanwhile counts nothing."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += Path(base, name).lstat().st_size
    return total
