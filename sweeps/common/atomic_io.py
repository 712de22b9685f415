"""Write files completely or not at all, also across a power cut; recognize them, and a full disk."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sweeps.common.errors import causes


def write(path: Path, content: str | bytes, mode: int = 0o666) -> None:
    """Write a small file atomically; the mode is that of a new file, before the user's mask."""
    with atomic_write(path) as part:
        part.touch(mode)
        part.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomic_write(target: Path, part: Path | None = None) -> Iterator[Path]:
    """Make a file or a folder beside `target`, or at `part`, which replaces it when it is complete and on the
    disk. A folder that is there must be empty.

    Yields:
        A path without a folder. What is made there is removed if the block raises.
    """
    part = part or part_of(target)
    shutil.rmtree(part, ignore_errors=True)  # left by a killed process
    try:
        yield part
        put(part, target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):  # it was a folder, or nothing was made
            part.unlink()
        raise


def part_of(target: Path) -> Path:
    """The path beside `target` at which it is made.

    Raises:
        IsADirectoryError: the target is `.` or `/`, which no file replaces.
    """
    if not target.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    return target.with_name(f".{target.name}.part")


def put(part: Path, target: Path) -> None:
    """Sync a complete file or folder to the disk, and rename it."""
    for path in (*part.rglob("*"), part):
        if not path.is_symlink():  # it may point to what is not there, and is a part of its folder
            sync(path)
    part.replace(target)
    sync(target.parent)


def append(file: Path, text: str) -> None:
    """Append a line to a file; an incomplete one is removed."""
    with file.open("ab", buffering=0) as content:
        before = content.tell()
        try:
            if content.write(text.encode()) < len(text.encode()):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            content.truncate(before)
            raise


def place_fault(folder: Path) -> str:
    """Why a folder can't be made; "" where it probably can."""
    there = next(parent for parent in folder.absolute().parents if os.access(parent, os.F_OK))
    can_write = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    return "" if can_write else f"{there} is not a writable folder"


def free_bytes(path: Path) -> int:
    """Free bytes on the disk of a file or folder, which need not be there yet."""
    path = path.absolute()
    return shutil.disk_usage(next(near for near in (path, *path.parents) if near.exists())).free


def sha256_of(path: Path) -> str:
    """Checksum of a file, which is read."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Flush a file or folder to the disk: else a rename may survive a power cut without the content."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


FULL = (errno.ENOSPC, errno.EDQUOT)
"""Of a disk, or of what a user may have of it."""


def disk_is_full(error: BaseException, folder: Path) -> bool:
    """Whether a write failed because of a full disk. PyTorch hides the system's error number."""
    if any(isinstance(cause, OSError) and cause.errno in FULL for cause in causes(error)):
        return True
    with suppress(OSError):  # a share that is gone
        return free_bytes(folder) < 16 * 2**20  # a rest that small counts as none
    return False
