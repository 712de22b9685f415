"""What S3 and SFTP have in common: both are file systems of fsspec, S3 by Arrow and SFTP by `sshfs`.

fsspec's own SFTP accepts any host key, and hung under load. Credentials come from the SSH agent, ~/.ssh, the
environment or a profile of AWS; none is handled here.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Protocol

CONNECT_S, SILENT_S = 10, 20
"""Longest wait for a host to answer, and for one that has answered before."""


class Backend(Protocol):
    """A server with a URL."""

    @property
    def url(self) -> str:
        """As the user gave it."""

    @property
    def root(self) -> str:
        """Its path in the file system."""

    def open(self) -> Any:
        """The file system, connected."""

    def upload(self, fs: Any, file: Path, target: str) -> None:
        """Copy a file of this PC; it has its name there only when it is complete."""

    def diagnose(self, error: Exception, fs: Any) -> tuple[str, bool]:
        """The reason of a failure, and whether trying again is useless."""

    def make(self, fs: Any) -> None:
        """Make the folder `root`."""


def copy(fs: Any, file: Path, target: str) -> None:
    """Copy a file, and compare its size."""
    with file.open("rb") as source, fs.open(target, "wb") as content:
        shutil.copyfileobj(source, content, 2**22)
    there, size = fs.info(target)["size"], file.stat().st_size
    if there != size:
        raise OSError(f"{target}: {there:,} of {size:,} bytes arrived")
