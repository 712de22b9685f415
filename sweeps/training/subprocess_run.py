"""Trainings in processes of their own: their end, why they failed, and that nothing is left of them.

Imports nothing heavy, so that who asks for them starts at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.common import atomic_io
from sweeps.common.errors import CannotTrain, UserError

OUT_OF_MEMORY = "out of memory"
TIMED_OUT = "not done within its time"
STOPS = (signal.SIGTERM, signal.SIGHUP)
"""A system that shuts down, `kill` and `timeout`; a terminal that is closed."""
LINES = 12
"""Of an error, at most."""
_REASON = "reason-"
"""And the worker's number: a file."""
_OF_A_RUN = (
    *("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    *("GROUP_RANK", "SLURM_NTASKS"),
)
"""What a run's workers, torchrun and Slurm say to a worker; this process may still listen at that port."""
_LOST = ("Connection closed by peer", "Connection reset by peer", "remote process exited")
"""What gloo and NCCL say to a worker when another one has gone: that is why."""


@dataclass(frozen=True)
class Ended:
    """What is known of a process that has ended."""

    status: int
    """Below 0: the signal that ended it."""
    output: str
    """Of its workers too."""
    timed_out: bool


def run(command: Sequence[str], timeout_s: float) -> Ended:
    """Run a command to its end, or to the end of its time; all that it has started ends with it.

    Raises:
        KeyboardInterrupt: Ctrl-C, or another of `STOPS`.
    """
    # A file, not a pipe: its end would come with the last of the workers, and those may wait for ever.
    with tempfile.TemporaryFile() as output, _stops_as_ctrl_c_does():
        child = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=_of_its_own(os.environ),
        )
        timed_out = False
        try:
            child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        output.seek(0)
        return Ended(child.returncode, output.read().decode(errors="replace"), timed_out)


@contextlib.contextmanager
def _stops_as_ctrl_c_does() -> Iterator[None]:
    """Each of `STOPS` is a KeyboardInterrupt: a process in a session of its own hears none of them itself."""

    def on_signal(number: int, frame: Any) -> None:
        for name in before:  # `timeout` sends its signal twice; the second one must not cut the end short
            signal.signal(name, signal.SIG_IGN)
        if number == signal.SIGHUP:  # nobody sees the terminal any more, and writing to it raises
            for terminal in filter(os.isatty, (1, 2)):
                os.dup2(os.open(os.devnull, os.O_WRONLY), terminal)
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()  # no other one may set a handler
    heard = [name for name in STOPS if is_main and signal.getsignal(name) != signal.SIG_IGN]  # nohup ignores
    before = {name: signal.getsignal(name) for name in heard}
    try:
        for name in heard:
            signal.signal(name, on_signal)
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _of_its_own(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which a run starts its own workers: who has started this one, and where its workers
    meet, is left out."""
    return {
        name: value
        for name, value in environment.items()
        if name not in _OF_A_RUN and not name.startswith("TORCHELASTIC_")
    }


@contextlib.contextmanager
def telling(folder: Path) -> Iterator[None]:
    """Leave in a folder why this worker fails: its exit status may not come through.

    Lightning kills the first worker when another one has failed.
    """
    try:
        yield
    except Exception as error:
        from sweeps.training.profiling import memory

        reason = OUT_OF_MEMORY if memory.is_out_of_memory(error) else _in_lines(error)
        atomic_io.write(folder / f"{_REASON}{os.environ.get('LOCAL_RANK', 0)}", reason)
        raise


def why(ended: Ended, folder: Path) -> str:
    """Why a training has failed: `OUT_OF_MEMORY`, `TIMED_OUT`, the lines of an error; "" if it has not.

    One that is killed and says nothing was killed by the system for its memory.

    Args:
        ended: its end.
        folder: where its workers have left their reasons.
    """
    files = sorted(folder.glob(f"{_REASON}*"), key=lambda file: file.stat().st_mtime_ns)
    reasons = [file.read_text(encoding="utf-8") for file in files]
    causes = [reason for reason in reasons if not any(words in reason for words in _LOST)]
    if OUT_OF_MEMORY in causes:
        return OUT_OF_MEMORY
    if causes:
        return causes[0]
    if ended.timed_out:
        return TIMED_OUT
    if ended.status == 0:
        return ""
    if ended.status == -signal.SIGKILL or reasons:
        return OUT_OF_MEMORY
    return _last(ended.output) or f"exit status {ended.status}"


def _in_lines(error: Exception) -> str:
    if isinstance(error, UserError | CannotTrain):
        return str(error)
    return _last("".join(traceback.format_exception(error)))


def _last(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-LINES:])
