"""The pages of this user that are open on this PC: a file of each, which its process holds locked.

The kernel lets go of a lock when its process ends, in whatever way: a file that is not locked is of the past.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sweeps.common import local_dirs
from sweeps.page.page_context import PageContext
from sweeps.ray_start.ray_folder import ray_folders

UNUSED_S = 30.0
"""After the last use it ends: a page that is loaded anew, or a sweep that follows another one, is a use."""


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


class Usage:
    """Of a page: somebody looks at it, one of its sweeps runs, or `sweeps up` keeps this PC ready."""

    def __init__(self, page: PageContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._page, self._clock = page, clock
        self._used = clock()

    def has_ended(self) -> bool:
        """Whether nobody has used it for some time."""
        runs = self._page.sweeps.is_any_running()
        stays = any(each.stays and each.state() is not None for each in ray_folders())
        if self._page.listeners.number or runs or stays:
            self._used = self._clock()
        return self._clock() > self._used + UNUSED_S


def _folder() -> Path:
    folder = local_dirs.folder_of_user() / "pages"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
