"""Folders that belong to a machine, not to a run: raw data, prepared data, and temporary files.

They travel in the environment, never in a file of settings.
"""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from sweeps.common.atomic_io import disk_is_full
from sweeps.common.errors import UserError

DATA_DIR_VARIABLE, PREPARED_DIR_VARIABLE = "SWEEPS_DATA_DIR", "SWEEPS_PREPARED_DIR"
OF_THE_MACHINE = {"--data-dir": DATA_DIR_VARIABLE, "--prepared-dir": PREPARED_DIR_VARIABLE}
"""Flag to environment variable."""
RAY_TMPDIR = "RAY_TMPDIR"
"""Ray's own variable for the place of its temporary files."""
LONGEST_FOR_SOCKETS = 32
"""Bytes of a path below which Ray may put its sockets. The kernel takes 107, and the longest one adds 75:
`/ray/session_2026-01-31_23-59-59_123456_1234567/sockets/dash_TaskEventsHead`."""


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


def for_sockets() -> Path:
    """The folder in which Ray and the fork servers have their temporary files and sockets.

    It is `$RAY_TMPDIR` if that is set, or else the folder of temporary files (`$TMPDIR`, `/tmp`). Where that
    is of no use, as the long one of a job of a batch system, it is a folder of this user in `/tmp`.

    Raises:
        UserError: no folder is of use; the text says which one to set.
    """
    named = os.environ.get(RAY_TMPDIR)
    try:
        folder = Path(named or tempfile.gettempdir())
        fault = _socket_fault(folder)
        if fault and not named:
            folder = folder_of_user()
            fault = _socket_fault(folder)
    except OSError as error:
        folder, fault = Path("/tmp"), error.strerror or str(error)
    if fault:
        raise UserError(
            f"{f'{RAY_TMPDIR}=' if named else ''}{folder}: {fault}. Set {RAY_TMPDIR} to a folder with some "
            f"space and a path of at most {LONGEST_FOR_SOCKETS} bytes"
        )
    return folder


def _socket_fault(folder: Path) -> str:
    """Why sockets can't be in a folder; "" where they can."""
    if (length := len(os.fsencode(folder))) > LONGEST_FOR_SOCKETS:
        return f"the path has {length} bytes, too many for the sockets of Ray"
    if not folder.is_absolute():
        return "must be an absolute path"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"written")
    except OSError as error:
        return f"no file can be written ({error.strerror})"
    return "its disk is full" if disk_is_full(OSError(), folder) else ""
