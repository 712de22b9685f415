"""Runs between a trial and its program, so that no process of the program outlives the trial.

`python -IS program_supervisor.py STATUS WORD...` starts the program in a session of its own. It obeys what
it reads from its standard input: `t` terminates all processes of the program, `s` stops them and `c` lets
them go on. At the end of that input, also when the trial is killed, it kills them, and ends. STATUS is the
number of a pipe, to which it writes its process's number, then a line when they have stopped, and one with
JSON when the program has ended. It uses the standard library alone, so that it starts at once.

It is no child of the trial, since a worker of Ray kills its children when it exits, and what those have
started would be left.

A subreaper is the parent of all processes below it whose own parent has ended:
https://man7.org/linux/man-pages/man2/PR_SET_CHILD_SUBREAPER.2const.html
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
STOPPED = "stopped"
"""The line when the processes have stopped."""
STOP_S = 5.0
"""In which processes stop, unless a device or a `vfork` holds one."""
SIGNALS = {b"t": signal.SIGTERM, b"c": signal.SIGCONT}


def main(status: int, words: Sequence[str]) -> None:
    if os.fork():
        os._exit(0)
    os.setsid()
    _tell(status, str(os.getpid()))
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: None)  # of a PC that shuts down: the trial decides
    try:
        program = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            # In this process, which has one thread, code of Python may run between fork and exec.
            preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
        )
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError | PermissionError)
        why = f"the program can't be started: {error.strerror}"
        _tell(status, json.dumps({"error": why, "is_missing": is_missing}))
        return
    has_ended = False
    while True:
        ready, _, _ = select.select([0, awake], [], [])
        if awake in ready:
            os.read(awake, 4096)
            # Not reaped before the end: until then no other process can have its number.
            if not has_ended and (found := os.waitid(os.P_PID, program.pid, _END | os.WNOHANG)) is not None:
                has_ended = True
                code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
                _tell(status, json.dumps({"status": code, "left": sum(map(_can_run, _children()))}))
        if 0 in ready:
            order = os.read(0, 1)
            if not order:
                break
            if order == b"s":
                _stop_all()
                _tell(status, STOPPED)
                continue
            pids = _descendants()
            _signal(pids, SIGNALS[order])
            if order == b"t":
                _signal(pids, signal.SIGCONT)
    _kill_all()


_END = os.WEXITED | os.WNOWAIT


def _stop_all() -> None:
    """Stop all processes below this one, until none of them can start another."""
    ends = time.monotonic() + STOP_S
    while time.monotonic() < ends and (running := [pid for pid in _descendants() if _can_run(pid)]):
        _signal(running, signal.SIGSTOP)
        time.sleep(0.001)


def _kill_all() -> None:
    """Kill all processes below this one, until there are none."""
    while True:
        _signal(_descendants(), signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def _children(pid: int | str = "self") -> list[int]:
    """Processes whose parent is a process."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


def _descendants() -> list[int]:
    """All processes below this one, whatever their group and session."""
    found = _children()
    for pid in found:  # grows meanwhile
        found += _children(pid)
    return found


def _can_run(pid: int) -> bool:
    """Whether a thread of a process is neither stopped nor at its end."""
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                state = (thread / "stat").read_text().rpartition(") ")[2][0]
                if state not in "TtZXx":
                    return True
    return False


def _signal(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _tell(status: int, line: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # the trial has ended
        os.write(status, f"{line}\n".encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
