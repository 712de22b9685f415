"""pytest plug-in: tells how a process of pytest-xdist that has died came to its end.

pytest-xdist itself says "Not properly terminated", whatever it was. A library that prints why it ends its
process (Ray, libgomp) prints into a file that pytest keeps, and nobody reads once the process has gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

PATIENCE_S = 20.0
LINES = 20
_kept: dict[int, dict[int, int]] = {}
"""Pid to the files that hold what it prints: inode to our descriptor."""
_killed_before = 0


def pytest_sessionstart() -> None:
    """Note how many processes the kernel has killed so far."""
    global _killed_before
    _killed_before = _killed_by_kernel()


@pytest.hookimpl(optionalhook=True)  # where pytest-xdist is switched off
def pytest_testnodeready() -> None:
    """Keep what the processes print: pytest's files of it have no name."""
    for process in psutil.Process().children():
        for file in Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                about, kept = file.stat(), _kept.setdefault(process.pid, {})
                if stat.S_ISREG(about.st_mode) and about.st_nlink == 0 and about.st_ino not in kept:
                    kept[about.st_ino] = os.open(file, os.O_RDONLY)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Print how a process that has died came to its end, and what it and its Ray have said last."""
    if error:
        print(f"\n[{node.gateway.id}] {_end()}", flush=True)
        print(f"The kernel has killed {_killed_by_kernel() - _killed_before} processes since the first test.")


def _end() -> str:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            # pytest-xdist waits for it later: its status is left to be taken.
            child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return "its end was seen by another"
        if child is not None:
            is_exit = child.si_code == os.CLD_EXITED
            how = f"exit status {child.si_status}" if is_exit else signal.Signals(child.si_status).name
            told = [f"pid {child.si_pid} has ended: {how}", *_last_printed(child.si_pid)]
            return "\n".join([*told, *_last_of_ray(child.si_pid)])
        time.sleep(0.1)
    return f"its process has not ended in {PATIENCE_S:g} s; only the connection to it"


def _last_printed(pid: int) -> list[str]:
    """The last lines that a process printed in the test that it ended in."""
    texts = [os.pread(file, 2**20, 0).decode(errors="replace") for file in _kept.get(pid, {}).values()]
    return [line for text in texts for line in text.splitlines()[-LINES:]]


def _killed_by_kernel() -> int:
    """Processes that the kernel has killed for want of memory since the machine was started."""
    counts = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(counts.get("oom_kill", 0))


def _last_of_ray(pid: int) -> list[str]:
    """The end of the log of the newest Ray that a process has started, if there is one."""
    base = Path(os.environ.get("RAY_TMPDIR", tempfile.gettempdir()))
    logs = sorted(base.rglob(f"ray/session_*/logs/python-core-driver-*_{pid}.log"), key=os.path.getmtime)
    if not logs:
        return []
    return logs[-1].read_text(errors="replace").splitlines()[-LINES:]
