"""Temporary folders for checkpoints on their way, each of one process. A new one removes those of dead
processes."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "sweeps-checkpoint-"


def new_folder() -> Path:
    """A new folder, of this process until it ends."""
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
