"""Sweeps of the queue that a reboot interrupts: `sweeps up` starts them again.

A sweep that was started with --queue on the Ray of this PC has a note in a folder of this user as long as its
process lives. It counts where that Ray is the one of `sweeps up`, also one that was started later. Where the
process is gone and the PC was not started anew since, it was killed, and has left the queue. What the sweep
has done is in its record alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sweeps.common import atomic_io, local_dirs
from sweeps.ray_start.ray_folder import boot_id, start_of

NOTED = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|TZ|LANG|LC_.*|TMPDIR|XDG_.*|VIRTUAL_ENV|CONDA_.*|PYTHON.*|LD_LIBRARY_PATH|"
    "LD_PRELOAD|CUDA_.*|NVIDIA_.*|ROCR_.*|HIP_.*|OMP_.*|MKL_.*|NCCL_.*|SWEEPS_.*|RAY_.*"
)
"""Variables that choose what runs, and where: their values are written to a file."""
SECRET = re.compile("key|token|secret|passw|credential|_pat$|_pwd$", re.IGNORECASE)
"""In the name of a variable whose value is written to no file, as one is not which holds a password of a URL
(`PASSWORD_IN_URL`)."""
PASSWORD_IN_URL = re.compile("://[^/@]*:[^/@]*@")
LOG = "queue.log"
"""In the folder of a sweep that was started again: what it prints."""
STARTS_S = 180.0
"""Seconds in which a sweep joins the queue, or ends."""


@dataclass(frozen=True, kw_only=True)
class QueuedSweep:
    """How a sweep is started again."""

    folder: str
    since: float
    """When it came, in seconds since 1970."""
    python: str = ""
    """Python of its environment: that of `sweeps up` may be another project's. "": not noted."""
    words: Sequence[str]
    """Of the command, behind that of Python."""
    current_folder: str
    variables: Mapping[str, str]
    boot: str
    """The kernel's id of the boot in which it was noted."""
    pid: int
    began: int
    """When its process began, in the kernel's ticks: another one may get its id."""
    is_kept: bool = True
    """Whether it is started again: its Ray is the one of `sweeps up`."""

    @property
    def is_of_this_boot(self) -> bool:
        """Whether the PC was not started anew since."""
        return self.boot == boot_id()

    @property
    def is_alive(self) -> bool:
        """Whether its process is there."""
        return self.is_of_this_boot and start_of(self.pid) == self.began


@contextlib.contextmanager
def noted(
    folder: Path, words: Sequence[str], stays: Callable[[], bool], *, is_kept: bool = True
) -> Iterator[None]:
    """Note this process as that of a sweep of the queue for a block, unless no note can be written. A PC on
    which one begins runs on, so that those which were killed there are forgotten.

    Args:
        folder: of the sweep.
        words: of the command that resumes it, behind that of Python.
        stays: whether the note stays behind the block: the PC may be shutting down.
        is_kept: whether its Ray is that of `sweeps up` already.
    """
    note = QueuedSweep(
        folder=str(folder),
        since=_since(folder),
        python=sys.executable,
        words=list(words),
        current_folder=str(Path.cwd()),
        variables={name: value for name, value in os.environ.items() if _is_noted(name, value)},
        boot=boot_id(),
        pid=os.getpid(),
        began=start_of(os.getpid()),
        is_kept=is_kept,
    )
    path = _path(folder)
    forget_killed()
    with contextlib.suppress(OSError):  # it is then not started again
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.chmod(0o700)
        atomic_io.write(path, json.dumps(asdict(note)), 0o600)
    try:
        yield
    finally:
        if not stays():
            with contextlib.suppress(OSError):
                path.unlink()


def keep(folders: Collection[str]) -> None:
    """Let the sweeps of these folders count: the Ray that they use stays from now on."""
    for folder in folders:
        path = _path(Path(folder))
        if folder and (note := _read(path)) is not None and note.is_alive and not note.is_kept:
            atomic_io.write(path, json.dumps(asdict(replace(note, is_kept=True))), 0o600)


def _is_noted(name: str, value: str) -> bool:
    is_secret = SECRET.search(name) or PASSWORD_IN_URL.search(value)
    return NOTED.fullmatch(name) is not None and not is_secret


def _since(folder: Path) -> float:
    """When a sweep came to the queue: before the reboot, where one has interrupted it, else now."""
    note = _read(_path(folder))
    return time.time() if note is None or note.is_of_this_boot else note.since


def interrupted() -> list[QueuedSweep]:
    """The sweeps that a reboot has interrupted, in their order."""
    forget_killed()
    notes = [note for path in _files() if (note := _read(path)) is not None]
    found = [note for note in notes if not note.is_of_this_boot and os.access(note.folder, os.W_OK)]
    return sorted(found, key=lambda note: note.since)


def forget_killed() -> None:
    """Remove the notes of sweeps that were killed while the PC ran on, and those that count no more."""
    for path in _files():
        with contextlib.suppress(OSError):  # it may be there all the same
            note = _parsed(path.read_bytes())
            if note is None or not (note.is_alive or (note.is_kept and not note.is_of_this_boot)):
                path.unlink()


def start_again(note: QueuedSweep) -> subprocess.Popen[bytes] | None:
    """Start a sweep again, detached, and wait until it is in the queue; None where it has ended."""
    python = note.python if Path(note.python).is_file() else sys.executable
    with (Path(note.folder) / LOG).open("ab") as log:
        process = subprocess.Popen(
            [python, *note.words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=note.current_folder if Path(note.current_folder).is_dir() else None,
            env={**os.environ, **note.variables},
            start_new_session=True,
        )
    ends = time.monotonic() + STARTS_S
    while process.poll() is None and time.monotonic() < ends:
        if (now := _read(_path(Path(note.folder)))) is not None and now.is_of_this_boot:
            return process
        time.sleep(0.2)
    if process.poll() is None:
        return process
    _path(Path(note.folder)).unlink(missing_ok=True)  # its log says why; the next time it would end, too
    return None


def _read(path: Path) -> QueuedSweep | None:
    """A note; None where there is none, or one of another version."""
    with contextlib.suppress(OSError):
        return _parsed(path.read_bytes())
    return None


def _parsed(content: bytes) -> QueuedSweep | None:
    try:
        return QueuedSweep(**json.loads(content))
    except (ValueError, TypeError):
        return None


def _files() -> list[Path]:
    """Those of all notes; none where the home folder can't be read now, as one of a server that is silent."""
    with contextlib.suppress(OSError):
        return [*_folder().glob("*.json")]
    return []


def _path(folder: Path) -> Path:
    return _folder() / f"{hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:16]}.json"


def _folder() -> Path:
    """That of this PC: several may share one home folder."""
    return local_dirs.state_dir() / "queue" / platform.node()
