"""What belongs to a machine, not to a run: folders of raw data, prepared data and temporary files, and GPUs.

They travel in the environment, never in a file of settings.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

DATA_DIR_VARIABLE, PREPARED_DIR_VARIABLE = "SWEEPS_DATA_DIR", "SWEEPS_PREPARED_DIR"
OF_THE_MACHINE = {"--data-dir": DATA_DIR_VARIABLE, "--prepared-dir": PREPARED_DIR_VARIABLE}
"""Flag to environment variable."""


def cache_dir() -> Path:
    """The folder of this user's caches of this program, `~/.cache/sweeps` by default (XDG)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sweeps"


def state_dir() -> Path:
    """The folder of what this program notes for this user beyond a reboot, `~/.local/state/sweeps` by default
    (XDG)."""
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "sweeps"


GPUS = "--gpus"
typed: dict[str, str] = {}
"""The flags of this command among OF_THE_MACHINE and GPUS, and what was typed."""


def use_typed(data_dir: str | None, prepared_dir: str | None) -> None:
    """Set the folders of the flags, where they were typed, for this process and its children."""
    for (name, variable), folder in zip(OF_THE_MACHINE.items(), (data_dir, prepared_dir), strict=True):
        typed.pop(name, None)
        if folder:
            typed[name] = folder
            os.environ[variable] = str(Path(folder).expanduser().resolve())


def use_gpus(named: str | None) -> None:
    """Show the GPUs of the flag alone, where it was typed, to this process and its children.

    Raises:
        UserError: there are no such GPUs.
    """
    typed.pop(GPUS, None)
    if named is not None:
        from sweeps.common.gpus import choose  # with NVIDIA's library, which --help does without

        os.environ.update(choose(named))
        typed[GPUS] = named


def typed_again() -> list[str]:
    """The same flags as words for another command on this machine."""
    words = {n: os.environ[OF_THE_MACHINE[n]] if n in OF_THE_MACHINE else each for n, each in typed.items()}
    return [word for pair in words.items() for word in pair]


def data_dir() -> Path | None:
    """The folder of the raw data, by `--data-dir` or the environment; None where none was given."""
    return named_folder(DATA_DIR_VARIABLE)


def named_folder(variable: str) -> Path | None:
    """The folder that a variable of the environment names; None without one. No shell has replaced a `~` in
    quotes."""
    named = os.environ.get(variable)
    return Path(named).expanduser() if named else None


def folder_of_user(parent: Path = Path("/tmp")) -> Path:
    """A folder of this user in another one, by default on this PC, whatever `$TMPDIR` a job has.

    Raises:
        OSError: it can't be made, or is another user's.
    """
    folder = parent / f"sweeps-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", str(folder))
    return folder


def new_claimed_folder(prefix: str) -> tuple[Path, int]:
    """A new folder in the PC's folder of temporary files, and the descriptor of `claim` that keeps it. Those
    of processes that were killed are removed."""
    remove_left(f"{prefix}*")
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        # Another process that begins at this moment may take it for one that was left.
        with suppress(BlockingIOError, FileNotFoundError):
            descriptor = claim(folder)
            if folder.is_dir():
                return folder, descriptor
            os.close(descriptor)


def remove_left(pattern: str, parent: Path | None = None, older_than_s: float = 0.0) -> None:
    """Remove the files and folders of these names that nobody claims and that have not changed for so long;
    by default those in the PC's folder of temporary files."""
    for path in (parent or Path(tempfile.gettempdir())).glob(pattern):
        with suppress(OSError):  # in use, of another user, gone
            if time.time() < path.stat().st_mtime + older_than_s:
                continue
            descriptor = claim(path)
            try:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            finally:
                os.close(descriptor)


def unused_name(name: str) -> str:
    """A name, with a number behind it where a process of this user was given the same one within a minute."""
    folder, number = cache_dir() / "names", 1
    with suppress(OSError):  # no home to write to: a second process is told that the name exists
        folder.mkdir(parents=True, exist_ok=True)
        remove_left("*", folder, older_than_s=60.0)
        while True:
            numbered = f"{name}-{number}" if number > 1 else name
            try:
                (folder / numbered).touch(exist_ok=False)
                return numbered
            except FileExistsError:
                number += 1
    return name


def claim(path: Path) -> int:
    """Lock a folder or a file until this process ends or closes the returned descriptor. (filelock locks no
    folder.)

    Raises:
        OSError: another process holds it.
    """
    # NFS locks only a file that may be written: https://man7.org/linux/man-pages/man2/flock.2.html
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def write_claimed(path: Path, text: str, part: Path) -> int:
    """Write a file that is claimed from the moment on at which it is seen; the descriptor of the claim.
    `part` is where it is written."""
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, text.encode())
    part.replace(path)
    return descriptor


def is_claimed(file: IO[Any]) -> bool:
    """Whether a process that is still there has claimed an open file, which need not be writable."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False
