"""Runs in the place of Python when Ray starts a process for trials, and has the fork server fork it.

`python -IS worker_launcher.py PYTHON SOCKET FACTS WORD...`, where SOCKET is the name of that of the fork
server, FACTS a file with what a child of the sweep would have of it, and the words are what Ray gives to
Python. What can't be forked is started as Ray asked. The launcher uses the standard library alone, so that it
starts at once, and ends when the fork is there: a worker tells Ray its own process id.

Ray's processes may have been started by another sweep: what they have of that one is replaced here.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

STREAMS = (0, 1, 2)
FORKED = b"f"
"""The answer of the fork server."""


OF_SHELL = ("PWD", "OLDPWD", "SHLVL", "_")
"""Variables of the shell by which Ray starts a worker."""


def main(words: Sequence[str]) -> None:
    python, name, facts, *command = words
    _take_over(Path(facts))
    is_program = bool(command) and command[0].endswith(".py")  # not `-c`, nor any other option
    if not (is_program and _is_forked(name, command)):
        os.execv(python, [python, *command])


def _take_over(file: Path) -> None:
    """Become a process as the sweep would have started it, with what Ray has set in addition."""
    facts = json.loads(file.read_text())
    set_by_ray = dict(os.environ)
    if raylet := os.environ.get("RAY_RAYLET_PID"):  # as in `ray_internals.variables_of_this_pc`
        words = Path(f"/proc/{raylet}/environ").read_bytes().split(b"\0")
        of_raylet = dict(os.fsdecode(word).partition("=")[::2] for word in words)
        differ = {name for name, value in os.environ.items() if of_raylet.get(name) != value}
        set_by_ray = {name: os.environ[name] for name in differ.difference(OF_SHELL)}
    os.environ.clear()
    os.environ.update(facts["environment"] | set_by_ray)
    os.umask(facts["umask"])
    os.nice(max(0, facts["niceness"] - os.nice(0)))
    for limit, soft, hard in facts["limits"]:
        if limit == resource.RLIMIT_NOFILE:  # Ray has raised it for its workers
            soft = min(max(soft, resource.getrlimit(limit)[0]), hard)
        with contextlib.suppress(OSError, ValueError):  # only root can raise one above that of Ray
            resource.setrlimit(limit, (soft, hard))
    with contextlib.suppress(OSError):  # it has been removed
        os.chdir(facts["folder"])


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
