"""Runs in the place of Python when Ray starts a process for trials, and has the fork server fork it.

`python -IS worker_launcher.py PYTHON SOCKET WORD...`, where SOCKET is the name of that of the fork server,
and the words are what Ray gives to Python. What can't be forked is started as Ray asked. The launcher uses
the standard library alone, so that it starts at once, and ends when the fork is there: a worker tells Ray its
own process id.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
from collections.abc import Sequence

STREAMS = (0, 1, 2)
FORKED = b"f"
"""The answer of the fork server."""


def main(words: Sequence[str]) -> None:
    python, name, *command = words
    is_program = bool(command) and command[0].endswith(".py")  # not `-c`, nor any other option
    if not (is_program and _is_forked(name, command)):
        os.execv(python, [python, *command])


def address_of(name: str) -> str:
    """Of the socket of a name: in Linux's abstract namespace, where nothing is left to remove."""
    return f"\0{name}"


def _is_forked(name: str, command: Sequence[str]) -> bool:
    """Have a process forked; False where there is no fork server, or it can't fork."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    request = json.dumps({"command": command, "environment": dict(os.environ), "open_files": limits})
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(address_of(name))
            socket.send_fds(server, [b"f"], [*STREAMS, os.open(".", os.O_PATH)])
            server.sendall(request.encode() + b"\n")
            return server.recv(1) == FORKED
    except OSError:
        return False


if __name__ == "__main__":
    main(sys.argv[1:])
