"""Runs in the place of Python when Ray starts a process for trials, which becomes a fork of the fork server.

`python -IS worker_launcher.py PYTHON SOCKET WORD...`, where SOCKET is the name of that of the fork server,
and the words are what Ray gives to Python. What can't be forked is started as Ray asked. The launcher uses
the standard library alone, so that it starts at once, and stays until the fork has ended: Ray knows it as
that process.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence

STREAMS = (0, 1, 2)


def main(words: Sequence[str]) -> None:
    python, name, *command = words
    if command and command[0].endswith(".py"):  # not `-c`, nor any other option
        _end_as(_forked(name, command))
    os.execv(python, [python, *command])


def address_of(name: str) -> str:
    """Of the socket of a name: in Linux's abstract namespace, where nothing is left to remove."""
    return f"\0{name}"


def _forked(name: str, command: Sequence[str]) -> int | None:
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
            server.connect(address_of(name))
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
