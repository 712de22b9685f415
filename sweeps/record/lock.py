"""Who runs a sweep: one process, which holds the kernel's lock on a file in its folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from sweeps.common.errors import UserError

LOCK_FILE = ".lock"
_LOOKS = 5
_LOOK_S = 0.02


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Be the one process that runs the sweep; the lock is gone when its process is, however that ended.

    Raises:
        UserError: another process runs it.
    """
    with (folder / LOCK_FILE).open("a+") as lock:
        if not _take(lock):
            lock.seek(0)
            raise UserError(f"{folder}: this sweep is running already, in process {lock.read()}")
        with contextlib.suppress(OSError):  # a full disk: who holds it is not known then, and that is all
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
        yield


def is_held(folder: Path) -> bool:
    """Whether a process runs the sweep now."""
    try:
        with (folder / LOCK_FILE).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such file: a folder that was copied; or not ours to read
        return False
    return False


def _take(lock: IO[str]) -> bool:
    """Try more than once: who looks, in `is_held`, has it for a moment."""
    for left in reversed(range(_LOOKS)):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if left:
            time.sleep(_LOOK_S)
    return False
