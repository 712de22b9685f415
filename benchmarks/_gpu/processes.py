"""Programs that a part runs, each with its own time and its own process group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

SAID = 3_000
"""Last characters of what a program wrote that are quoted."""


class Failed(RuntimeError):
    """A program failed, or took too long."""


def output_of(command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None) -> str:
    """Run a program to its end; what it wrote.

    Args:
        command: its words.
        timeout_s: after which it and all its children are killed.
        environment: all its variables; None: those of this process.

    Raises:
        Failed: it did not end well; the end of what it wrote is quoted.
    """
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=max(1.0, timeout_s))
    except subprocess.TimeoutExpired:
        kill(process)
        said, _ = process.communicate()
        raise Failed(f"took longer than {timeout_s:.0f} s:\n{said[-SAID:]}") from None
    except BaseException:
        kill(process)
        raise
    if process.returncode != 0:
        raise Failed(f"exit status {process.returncode}:\n{said[-SAID:]}")
    return said


def kill(process: subprocess.Popen[str]) -> None:
    """A program that leads a process group, and that group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
