"""Runs in the place of Python when Ray starts a process: a worker becomes a fork of the fork server.

`python -IS worker_launcher.py PYTHON SOCKET WORD...`, where the words are what Ray gives to Python. Another
process than a worker, or one that can't be forked, is started as Ray asked. It uses the standard library
alone, so that it starts at once, and stays until the worker has ended: Ray knows it as the worker's process.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence

WORKER = "default_worker.py"
"""Ray's program of a worker of Python."""
STREAMS = (0, 1, 2)


def main(words: Sequence[str]) -> None:
    python, address, *command = words
    if command and command[0].endswith(WORKER):
        _end_as(_forked(address, command))
    os.execv(python, [python, *command])


def _forked(address: str, command: Sequence[str]) -> int | None:
    """Have a worker forked and wait for its end.

    Returns:
        Its status, as `os.waitpid` has it; None where there is no fork server, or it can't fork.
    """
    request = json.dumps({"command": command, "environment": dict(os.environ)})
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(address)
            socket.send_fds(server, [b"f"], [*STREAMS, os.open(".", os.O_PATH)])
            server.sendall(request.encode() + b"\n")
            answers = server.makefile()
            if not (worker := answers.readline().strip()):
                return None
            # A worker saves what it has trained, and ends; the end of this process would kill it.
            signal.signal(signal.SIGTERM, lambda number, _: os.kill(int(worker), number))
            return int(answers.readline() or 0)
    except OSError:
        return None


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
