"""pytest plug-in: tells how a process of pytest-xdist that has died came to its end.

pytest-xdist itself says "Not properly terminated", whatever it was. A Ray that was started in such a process
may end it without a word on the screen: its words are in a log.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

PATIENCE_S = 20.0
LINES = 20


@pytest.hookimpl(optionalhook=True)  # where pytest-xdist is switched off
def pytest_testnodedown(node: Any, error: object) -> None:
    """Print the exit status of a process that has died, and the end of its Ray's log."""
    if error:
        print(f"\n[{node.gateway.id}] {_end()}", flush=True)


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
            return f"pid {child.si_pid} has ended: {how}\n{_last_of_ray(child.si_pid)}"
        time.sleep(0.1)
    return f"its process has not ended in {PATIENCE_S:g} s; only the connection to it"


def _last_of_ray(pid: int) -> str:
    """The end of the log of the newest Ray that a process has started, if there is one."""
    base = Path(os.environ.get("RAY_TMPDIR", tempfile.gettempdir())) / "ray"
    logs = sorted(base.glob(f"session_*/logs/python-core-driver-*_{pid}.log"), key=os.path.getmtime)
    if not logs:
        return ""
    return "\n".join(logs[-1].read_text(errors="replace").splitlines()[-LINES:])
