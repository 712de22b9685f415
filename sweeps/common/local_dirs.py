"""Folders that belong to a machine, not to a run: raw data, prepared data, and temporary files.

They travel in the environment, never in a file of settings.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

DATA_DIR_VARIABLE, PREPARED_DIR_VARIABLE = "SWEEPS_DATA_DIR", "SWEEPS_PREPARED_DIR"
OF_THE_MACHINE = {"--data-dir": DATA_DIR_VARIABLE, "--prepared-dir": PREPARED_DIR_VARIABLE}
"""Flag to environment variable."""


def cache_dir() -> Path:
    """The folder of this user's caches of this program, `~/.cache/sweeps` by default (XDG)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sweeps"


typed: dict[str, str] = {}
"""The flags of this command among OF_THE_MACHINE, and their folders as they were typed."""


def use_typed(data_dir: str | None, prepared_dir: str | None) -> None:
    """Set the folders of the flags, where they were typed, for this process and its children."""
    typed.clear()
    for (name, variable), folder in zip(OF_THE_MACHINE.items(), (data_dir, prepared_dir), strict=True):
        if folder:
            typed[name] = folder
            os.environ[variable] = str(Path(folder).expanduser().resolve())


def typed_again() -> list[str]:
    """The same flags as words for another command on this machine."""
    return [word for name in typed for word in (name, os.environ[OF_THE_MACHINE[name]])]


def data_dir() -> Path | None:
    """The folder of the raw data, by `--data-dir` or the environment; None where none was given."""
    named = os.environ.get(DATA_DIR_VARIABLE)
    return Path(named) if named else None


def folder_of_user() -> Path:
    """A folder of this user on this PC, whatever `$TMPDIR` a job has.

    Raises:
        OSError: it can't be made, or is another user's.
    """
    folder = Path("/tmp", f"sweeps-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", str(folder))
    return folder
