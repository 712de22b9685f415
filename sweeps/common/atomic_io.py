"""Files that are whole or not there, also after a power cut; and a disk that has no room for them."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sweeps.common.errors import causes


def write(path: Path, text: str) -> None:
    """Write a small file as a whole."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")


@contextmanager
def atomic_write(target: Path, part: Path | None = None) -> Iterator[Path]:
    """Make a file or a folder beside `target`; it takes that name when it is complete and on the disk.

    Args:
        target: a file that may exist, or a folder that does not, or is empty.
        part: where to make it; by default `part_of(target)`.

    Yields:
        A path at which no folder exists. What is made there is removed if the block raises.
    """
    part = part or part_of(target)
    shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
    try:
        yield part
        put(part, target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):  # it was a folder, or nothing was made
            part.unlink()
        raise


def part_of(target: Path) -> Path:
    """The path beside `target` at which it is made."""
    return target.with_name(f".{target.name}.part")


def put(part: Path, target: Path) -> None:
    """Rename a complete file or folder to its final name, after its content is on the disk."""
    for path in (*part.rglob("*"), part):
        sync(path)
    part.replace(target)
    sync(target.parent)


def append(file: Path, text: str) -> None:
    """Write a line at the end of a file; one that has no room is taken back whole."""
    with file.open("ab", buffering=0) as content:
        before = content.tell()
        try:
            if content.write(text.encode()) < len(text.encode()):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            content.truncate(before)
            raise


def place_fault(folder: Path) -> str:
    """Why a folder can't be made, with those above it; "" where it can, as far as is known before."""
    there = next(parent for parent in folder.absolute().parents if os.access(parent, os.F_OK))
    can_write = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    return "" if can_write else f"{there} is no folder that can be written to"


def sync(path: Path) -> None:
    """Flush a file or folder to the disk: a rename may survive a power cut that its content does not."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_FULL = (errno.ENOSPC, errno.EDQUOT)


_SCRAP_BYTES = 16 * 2**20
"""With less than this free, a disk counts as full."""


def disk_is_full(error: BaseException, folder: Path) -> bool:
    """Whether a failed write is the disk's fault. PyTorch hides the system's error number."""
    if any(isinstance(cause, OSError) and cause.errno in _FULL for cause in causes(error)):
        return True
    for path in (folder, *folder.parents):
        with suppress(OSError):  # not made yet, or a share that is gone
            return shutil.disk_usage(path).free < _SCRAP_BYTES
    return False
