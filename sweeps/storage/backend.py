"""Doors to storages behind a network: one file put there whole, and why one does not open, in words.

Both are file systems of fsspec: Arrow's own S3, and SFTP by `sshfs` over asyncssh. (fsspec's own SFTP takes
any host key, and hung under load.) Who one is is known to the SSH agent, ~/.ssh, the environment or a profile
of AWS: nothing of it passes through here.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Protocol

CONNECT_S, SILENT_S = 10, 20
"""How long a host may take to answer; how long one that was there may be silent."""


class Door(Protocol):
    """What is different behind one scheme and the other."""

    @property
    def url(self) -> str:
        """As it was given."""

    @property
    def root(self) -> str:
        """Its path, as the file system has it."""

    def open(self) -> Any:
        """The file system, connected."""

    def put(self, fs: Any, file: Path, target: str) -> None:
        """Put a file there: under its name it is whole."""

    def why(self, error: Exception, fs: Any) -> tuple[str, bool]:
        """Why it failed, and whether it will fail the next time too."""

    def make(self, fs: Any) -> None:
        """Make the folder `root`."""


def _copy(fs: Any, file: Path, target: str) -> None:
    """Copy a file, and look whether all of it has come."""
    with file.open("rb") as source, fs.open(target, "wb") as content:
        shutil.copyfileobj(source, content, 2**22)
    there, size = fs.info(target)["size"], file.stat().st_size
    if there != size:
        raise OSError(f"{target}: {there:,} of {size:,} bytes have come")
