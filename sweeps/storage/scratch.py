"""Folders on the disk of a PC that hold a checkpoint on its way, each of one process: who begins a new one
removes those of processes that have died."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "sweeps-checkpoint-"


def new_folder() -> Path:
    """A new one, of this process as long as it lives."""
    for other in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # in use, of another user, gone
            descriptor = claim(other)
            try:
                shutil.rmtree(other)
            finally:
                os.close(descriptor)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    claim(folder)
    return folder


def claim(folder: Path) -> int:
    """Make a folder this process's own, until it ends or closes the descriptor that is returned.

    Raises:
        OSError: it is another's.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
