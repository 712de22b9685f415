"""The pages of this user that are open on this PC: a file of each, which its process holds locked.

The kernel lets go of a lock when its process ends, in whatever way: a file that is not locked is of the past.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sweeps.common import local_dirs


@dataclass(frozen=True, kw_only=True)
class OpenPage:
    """A page that is open."""

    url: str
    """Without its token."""
    pid: int
    folders: Sequence[str]
    host: str
    is_read_only: bool

    def shows(self, folders: Sequence[Path], host: str, *, is_read_only: bool) -> bool:
        """Whether another one would be the same."""
        is_alike = (self.host, self.is_read_only) == (host, is_read_only)
        return is_alike and set(map(str, folders)) <= set(self.folders)


@contextlib.contextmanager
def noted(page: OpenPage) -> Iterator[None]:
    """Note the page of this process for a block."""
    path = _folder() / f"{page.pid}.json"
    part = path.with_suffix(".part")
    number = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        os.write(number, json.dumps(asdict(page)).encode())
        part.replace(path)  # it is seen only when it is locked
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(number)


def open_pages() -> list[OpenPage]:
    """All that are open; files of those that have ended are removed."""
    found = []
    for path in _folder().glob("*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError), path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(OpenPage(**json.load(file)))
            else:
                path.unlink()
    return found


def _folder() -> Path:
    folder = local_dirs.folder_of_user() / "pages"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
