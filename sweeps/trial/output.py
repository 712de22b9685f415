"""What the process of a trial prints: its standard output and errors, also those of C code and of processes
that it starts, go to a file on its PC. With each result the sweep takes what the file holds.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

MOST_BYTES = 64 * 1024
"""Of one result; of more the middle is left out."""
EXIT = "This process ends itself, with exit status "
_file: int | None = None


def start() -> str:
    """Send all that this process prints from now on to a new file; its path."""
    global _file
    file, path = tempfile.mkstemp(prefix="sweeps-trial-", suffix=".out")
    os.close(file)
    _file = os.open(path, os.O_RDWR | os.O_APPEND)
    _flush()
    for stream in (1, 2):
        os.dup2(_file, stream)
    _note_exits()
    return path


def take() -> str:
    """What was printed since the last call; "" where nothing was, or where `start` was not called."""
    if _file is None:
        return ""
    _flush()
    if text := _content(_file):
        os.ftruncate(_file, 0)
    return text


def marked(text: str, worker: int) -> str:
    """A text of which each line names the worker that has printed it, numbered from 0."""
    return "".join(f"[worker {worker}] {line}\n" for line in text.splitlines())


def last_words(path: str) -> str:
    """What a process of this PC printed after its last result; the file is removed. "" without one."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return _content(file)
    finally:
        os.close(file)
        remove(path)


def remove(path: str) -> None:
    """Remove the file of a process that is gone, or ends."""
    if path:
        Path(path).unlink(missing_ok=True)


def _content(file: int) -> str:
    """The text of a file, without its middle where it is too long."""
    size, half = os.fstat(file).st_size, MOST_BYTES // 2
    if size <= MOST_BYTES:
        return os.pread(file, size, 0).decode(errors="replace")
    head, tail = os.pread(file, half, 0), os.pread(file, half, size - half)
    left_out = f"\n[{size - 2 * half:,} bytes are left out]\n"
    return head.decode(errors="replace") + left_out + tail.decode(errors="replace")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


def _note_exits() -> None:
    """Print the exit status before `os._exit`: nobody but Ray's daemon learns it, and keeps it to itself."""
    leave = os._exit

    def noted(status: int) -> NoReturn:
        os.write(2, f"{EXIT}{status}\n".encode())
        leave(status)

    os._exit = noted
