"""What the process of a trial prints: its standard output and errors, also those of C code and of processes
that it starts, go to a file on its PC. With each result the sweep takes what the file holds.

The file of a process that was killed stays, so that its last words
can be read, also from another PC; a process that starts later removes it.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

import psutil
import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup

from sweeps.common import local_dirs
from sweeps.common.errors import oom_kills
from sweeps.ray_cluster import nodes

MOST_BYTES = 64 * 1024
"""Of one process for one result; of more the middle is left out."""
LEFT_S = 600.0
"""For which the file of a process that was killed is left alone: it may still be read."""
EXIT = "This process ends itself, with exit status "
FATAL = "Fatal Python error: "
"""Python's line where a signal ends the process: its faulthandler prints it, which Ray turns on."""
GIVEN_UP = "The process of this trial ends, and the trial is requeued: "
KILLED_FOR_MEMORY = "killed by the kernel: out of memory"
LOST = 70
"""Exit status of a process that gave up its trial."""
_PREFIX, _SUFFIX = "sweeps-trial-", ".out"
_file: int | None = None
_added: list[str] = []


class Introduction(NamedTuple):
    """What the process of a trial, or of a worker, says of itself."""

    node: str = ""
    """Ray's id of its PC."""
    actor: str = ""
    """Ray's id of it."""
    group: PlacementGroup | None = None
    pid: int = 0
    output_file: str = ""
    oom_kills: int = 0
    """Of its PC, by then."""
    gpus: tuple[str, ...] = ()
    """That Ray has given it, or a part of; none where its workers have them."""


def introduce() -> Introduction:
    """Keep what this process prints from now on, and say how its end is told."""
    context = ray.get_runtime_context()
    group = ray.util.get_current_placement_group()
    return Introduction(
        node=context.get_node_id(),
        actor=context.get_actor_id() or "",
        group=group,
        pid=os.getpid(),
        output_file=start(),
        oom_kills=oom_kills(),
        gpus=tuple(map(str, ray.get_gpu_ids())),
    )


def start() -> str:
    """Send all that this process prints from now on to a new file; its path."""
    global _file
    local_dirs.remove_left(f"{_PREFIX}*{_SUFFIX}", older_than_s=LEFT_S)
    file, path = tempfile.mkstemp(prefix=_PREFIX, suffix=_SUFFIX)
    os.close(file)
    local_dirs.claim(Path(path))
    _file = os.open(path, os.O_RDWR | os.O_APPEND)
    _flush()
    for stream in (1, 2):
        os.dup2(_file, stream)
    _note_exits()
    return path


def take() -> str:
    """What was printed since the last call, if `start` was called, and what was added."""
    texts = [*_added]
    _added.clear()
    if _file is not None:
        _flush()
        if content := _content(_file):
            os.ftruncate(_file, 0)
        texts.insert(0, content.decode(errors="replace"))
    return "".join(texts)


def add(text: str) -> None:
    """Let `take` return a text of another process, too."""
    _added.append(text)


def marked(text: str, worker: int) -> str:
    """A text of which each line names the worker that has printed it; of the first, 0, as it is."""
    return "".join(f"[worker {worker}] {line}\n" for line in text.splitlines()) if worker else text


@dataclass(frozen=True)
class Loss:
    """Why a process has ended, in a few words. Ray knows only that the connection to it has ended."""

    why: str
    last_words: str = ""
    """That it printed after its last result."""
    is_of_the_pc: bool = False
    """Whether its PC was lost with it, or that of another worker."""
    free_bytes: float = math.inf
    """Of the main memory of its PC, afterwards, where the kernel has ended it for want of that."""


def examine(path: str) -> tuple[str, int, int]:
    """What a process of this PC printed after its last result, `oom_kills` now, and how much main memory is
    free; the file is removed."""
    words = b""
    with contextlib.suppress(OSError):  # there is none
        file = os.open(path, os.O_RDONLY)
        words = _content(file)
        os.close(file)
        remove(path)
    return words.decode(errors="replace"), oom_kills(), psutil.virtual_memory().available


def how_ended(process: Introduction) -> Loss:
    """How a process of any PC has ended."""
    try:
        if process.node == nodes.here():
            words, now, free_bytes = examine(process.output_file)
        else:
            asked = nodes.begin_on(process.node, examine, process.output_file)
            words, now, free_bytes = ray.get(asked, timeout=10)
    except RayError:
        return Loss("its PC does not answer")
    why = why_ended(words, is_oom=now > process.oom_kills)
    return Loss(why, words, free_bytes=free_bytes if why == KILLED_FOR_MEMORY else math.inf)


def why_ended(last_words: str, *, is_oom: bool) -> str:
    """Why a process has ended, by what it printed last; `is_oom`: the kernel has killed one since."""
    for line in reversed(last_words.splitlines()):
        if line.startswith((FATAL, GIVEN_UP)):
            return line.removeprefix(GIVEN_UP)
        if line.startswith(EXIT) and not (line == f"{EXIT}{LOST}" and GIVEN_UP in last_words):
            return f"exit status {line.removeprefix(EXIT)}"
    if is_oom:
        return KILLED_FOR_MEMORY
    return "it ended without a trace (most often signal 9, SIGKILL)"


def give_up(why: str) -> NoReturn:
    """End this process. The trial is requeued, and Ray ends the rest of its worker group."""
    added = "".join(_added)
    line = "" if added.endswith("\n") or not added else "\n"
    _flush()
    with contextlib.suppress(OSError):  # no space
        os.write(2, f"{added}{line}{GIVEN_UP}{why}\n".encode())
    os._exit(LOST)


def remove(path: str) -> None:
    """Remove the file of a process that is gone, or ends."""
    if path:
        Path(path).unlink(missing_ok=True)


def _content(file: int) -> bytes:
    """What a file holds, without its middle where it is too long."""
    size, half = os.fstat(file).st_size, MOST_BYTES // 2
    if size <= MOST_BYTES:
        return os.pread(file, size, 0)
    head, tail = os.pread(file, half, 0), os.pread(file, half, size - half)
    return head + f"\n[{size - 2 * half:,} bytes are left out]\n".encode() + tail


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # no space; or the user's code has closed or replaced it
            stream.flush()


def _note_exits() -> None:
    """Print the exit status before `os._exit`: nobody but Ray's daemon learns it, and keeps it to itself.
    A fork of the user's code, as a worker of a loader, ends by it, too: that says nothing of this process."""
    leave, own = os._exit, os.getpid()

    def noted(status: int) -> NoReturn:
        if os.getpid() == own:
            with contextlib.suppress(OSError):  # no space
                os.write(2, f"{EXIT}{status}\n".encode())
        leave(status)

    os._exit = noted
