"""Temporary files and folders, each of one process, which claims it. Who makes a new one first removes those
of processes that were killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PREFIX = "sweeps-checkpoint-"
"""Of folders for checkpoints on their way."""


def new_folder() -> Path:
    """A new folder for checkpoints, of this process until it ends."""
    remove_left(f"{PREFIX}*")
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    claim(folder)
    return folder


def remove_left(pattern: str, parent: Path | None = None, older_than_s: float = 0.0) -> None:
    """Remove the files and folders that nobody claims.

    Args:
        pattern: of their names.
        parent: where they are; None: the PC's folder of temporary files.
        older_than_s: since the last change.
    """
    for path in (parent or Path(tempfile.gettempdir())).glob(pattern):
        with suppress(OSError):  # in use, of another user, gone
            if time.time() < path.stat().st_mtime + older_than_s:
                continue
            descriptor = claim(path)
            try:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            finally:
                os.close(descriptor)


def claim(path: Path) -> int:
    """Lock a folder or a file until this process ends or closes the returned descriptor. (filelock locks no
    folder.)

    Raises:
        OSError: another process holds it.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
