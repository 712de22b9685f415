"""The lock of a sweep's folder: one process runs the sweep. The kernel frees it when that process ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from sweeps.common import local_dirs
from sweeps.common.errors import UserError

LOCK_FILE = ".lock"


class Taken(UserError):
    """Another process holds the lock."""


@contextlib.contextmanager
def held(folder: Path, wait_s: float = 0.1) -> Iterator[None]:
    """Hold the lock for a block; the file names this process.

    Args:
        wait_s: seconds in which another process may free it. One that looks, in `is_held`, holds it for a
            moment, and so does one that writes a note of a sweep that has ended.

    Raises:
        Taken: another process holds it.
        FileNotFoundError: there is no such folder; filelock would make it.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"no sweep in {folder}: there is no such folder")
    path = folder / LOCK_FILE
    try:
        lock = FileLock(path, timeout=wait_s, poll_interval=0.02, fallback_to_soft=False).acquire()
    except Timeout:
        raise Taken(f"{folder}: this sweep is already running, in process {path.read_text()}") from None
    with lock:
        with contextlib.suppress(OSError):  # a full disk: then the file names no process
            path.write_text(str(os.getpid()))
        yield


def is_held(folder: Path) -> bool:
    """Whether a process runs the sweep now. Only reads: filelock would need to write to the folder."""
    try:
        with (folder / LOCK_FILE).open() as lock:
            return local_dirs.is_claimed(lock)
    except OSError:  # no such file: a folder that was copied; or not ours to read
        return False
