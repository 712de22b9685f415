"""Runs in the place of Python when Ray starts a process, which becomes a fork of a fork server.

`python -IS worker_launcher.py PYTHON FOLDER WORD...`, where the folder has the sockets of the fork servers,
and the words are what Ray gives to Python. Another program than those below, or one that can't be forked, is
started as Ray asked. The launcher uses the standard library alone, so that it starts at once, and stays until
the fork has ended: Ray knows it as that process.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence

WORKERS, SERVICES = "workers", "services"
"""The fork servers, by the names of their sockets."""
PROGRAMS = {
    "/default_worker.py": WORKERS,
    "/setup_worker.py": SERVICES,
    "/dashboard/dashboard.py": SERVICES,
    "/dashboard/agent.py": SERVICES,
    "/runtime_env/agent/main.py": SERVICES,
    "/_private/log_monitor.py": SERVICES,
    "/autoscaler/_private/monitor.py": SERVICES,
    "/autoscaler/v2/monitor.py": SERVICES,
    "/sweeps/cluster/ray_head.py": SERVICES,
}
"""The programs by the ends of their paths. What `setup_worker.py` sets up becomes `default_worker.py`."""
OPTIONS = ("-u", "-P")
"""Of Python, that may come before the program."""
STREAMS = (0, 1, 2)


def main(words: Sequence[str]) -> None:
    python, folder, *command = words
    program = list(itertools.dropwhile(OPTIONS.__contains__, command))
    if program and (server := server_of(program[0])) is not None:
        _end_as(_forked(f"{folder}/{server}", program))
    os.execv(python, [python, *command])


def server_of(program: str) -> str | None:
    """The fork server of a program of Ray; None of any other one."""
    return next((server for end, server in PROGRAMS.items() if program.endswith(end)), None)


def _forked(address: str, command: Sequence[str]) -> int | None:
    """Have a process forked and wait for its end.

    Returns:
        Its status, as `os.waitpid` has it; None where there is no fork server, or it can't fork.
    """
    request = json.dumps(
        {
            "command": command,
            "environment": dict(os.environ),
            "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
            "blocked": [int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
        }
    )
    fork = ""
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(address)
            socket.send_fds(server, [b"f"], [*STREAMS, os.open(".", os.O_PATH)])
            server.sendall(request.encode() + b"\n")
            answers = server.makefile()
            if not (fork := answers.readline().strip()):
                return None
            # A worker saves what it has trained, and ends; the end of this process would kill it.
            signal.signal(signal.SIGTERM, lambda number, _: _send(int(fork), number))
            return int(answers.readline() or signal.SIGKILL)
    except OSError:
        return signal.SIGKILL if fork else None


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # it has just ended
        return


def _end_as(status: int | None) -> None:
    """Exit as a process with this status did."""
    if status is None:
        return
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGKILL:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(sys.argv[1:])
