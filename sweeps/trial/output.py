"""What the process of a trial prints: its standard output and errors, also those of C code and of processes
that it starts, go to a file on its PC. With each result the sweep takes what the file holds.

The file is bounded also between two results. One of a process that was killed stays, so that its last words
can be read, also from another PC; a process that starts later removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NoReturn

import ray
from ray.exceptions import RayError

from sweeps.cluster import broadcast
from sweeps.storage import scratch

MOST_BYTES = 64 * 1024
"""Of one result; of more the middle is left out."""
MOST_ON_DISK_BYTES = 4 * 2**20
"""Of the file, which is looked at every `LOOK_EVERY_S`: a model that prints per step would fill the disk."""
LOOK_EVERY_S = 1.0
LEFT_S = 60.0
"""For which the file of a process that was killed is left alone: it may still be read."""
ANSWER_S = 10.0
"""For the answer of another PC."""
EXIT = "This process ends itself, with exit status "
_PREFIX, _SUFFIX = "sweeps-trial-", ".out"
_LEFT_OUT = re.compile(rb"\n\[([\d,]+) bytes are left out\]\n")
_file: int | None = None
_lock = threading.Lock()
"""Held to shorten the file."""


def start() -> str:
    """Send all that this process prints from now on to a new file; its path."""
    global _file
    scratch.remove_left(f"{_PREFIX}*{_SUFFIX}", older_than_s=LEFT_S)
    file, path = tempfile.mkstemp(prefix=_PREFIX, suffix=_SUFFIX)
    os.close(file)
    scratch.claim(Path(path))
    _file = os.open(path, os.O_RDWR | os.O_APPEND)
    _flush()
    for stream in (1, 2):
        os.dup2(_file, stream)
    _note_exits()
    in_place = os.open(path, os.O_RDWR)
    threading.Thread(target=_keep_short, args=(in_place,), daemon=True).start()
    return path


def take() -> str:
    """What was printed since the last call; "" where nothing was, or where `start` was not called."""
    if _file is None:
        return ""
    _flush()
    with _lock:
        if content := _content(_file):
            os.ftruncate(_file, 0)
    return content.decode(errors="replace")


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
        return _content(file).decode(errors="replace")
    finally:
        os.close(file)
        remove(path)


def oom_kills() -> int:
    """Processes of this PC that the kernel has killed for want of memory since it was started."""
    try:
        counters = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    except OSError:
        return 0
    return int(counters.get("oom_kill", 0))


def examine(path: str) -> tuple[str, int]:
    """What a process printed last, and `oom_kills` now."""
    return last_words(path), oom_kills()


def examine_on(node: str, path: str) -> tuple[str, int]:
    """The same on the PC with this id of Ray's; ("", 0) where it does not answer."""
    if node == broadcast.here():
        return examine(path)
    try:
        found: tuple[str, int] = ray.get(broadcast.begin_on(node, examine, path), timeout=ANSWER_S)
    except RayError:
        return "", 0
    return found


def remove(path: str) -> None:
    """Remove the file of a process that is gone, or ends."""
    if path:
        Path(path).unlink(missing_ok=True)


def _keep_short(file: int) -> None:
    """Leave out the middle of the file again and again; what is printed in that very moment may get lost."""
    while True:
        time.sleep(LOOK_EVERY_S)
        with _lock, contextlib.suppress(OSError):  # the disk is full
            os.utime(file)  # alive: `remove_left` counts from the end of a process, not from what it printed
            if os.fstat(file).st_size > MOST_ON_DISK_BYTES:
                content = _content(file)
                os.pwrite(file, content, 0)  # after a cut to nothing, what is printed now would come first
                os.ftruncate(file, len(content))


def _content(file: int) -> bytes:
    """What a file holds, without its middle where it is too long."""
    size, half = os.fstat(file).st_size, MOST_BYTES // 2
    if size <= MOST_BYTES:
        return os.pread(file, size, 0)
    head, tail, left_out = os.pread(file, half, 0), os.pread(file, half, size - half), size - 2 * half
    if before := _LEFT_OUT.match(os.pread(file, 100, half)):  # by `_keep_short`
        left_out += int(before[1].replace(b",", b"")) - len(before[0])
    return head + f"\n[{left_out:,} bytes are left out]\n".encode() + tail


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
