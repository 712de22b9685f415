"""Forks a process on each request at a socket, and tells who asked when and how it has ended.

Used by the fork servers (`fork_server.py`), which say what has been imported before.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import json
import os
import resource
import runpy
import selectors
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from sweeps.common import imports
from sweeps.trial import worker_launcher

MOST_REQUEST_BYTES = 4 * 2**20
OOM_SCORE = ("RAY_worker_oom_score_adjustment", "1000")
"""Ray's setting, and its default: the kernel ends workers before Ray's other processes."""
OF_EACH_WORKER = ("ray.tune", "sweeps.trial.trainable", "sweeps.trial.runner")
"""What each worker imports for itself."""
END_SIGNAL = signal.SIGUSR1
"""Ends a fork server and its forks. A system that shuts down sends SIGTERM, at which trials are saved."""
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36


def import_all(names: Sequence[str]) -> None:
    """Import modules in order."""
    with imports.fast():
        for name in names:
            importlib.import_module(name)


def end_with(parent: int) -> None:
    """End this process as soon as its parent ends, and at once if that has ended already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def adopt_orphans() -> None:
    """Be the parent of what a fork has started when that fork ends, to see its end: not each PC has a process
    1 that does so, as in a container."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Server:
    """Forks on request, and tells each launcher when and how its fork has ended.

    Args:
        listener: the socket, listening.
        variables: of the environment, which the imports have set.
    """

    def __init__(self, listener: socket.socket, variables: Mapping[str, str]) -> None:
        self._pid = os.getpid()
        self._listener = listener
        self._variables = variables
        self._launchers: dict[int, socket.socket] = {}
        """Pid of a fork to the connection of its launcher."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._woken = woken
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(END_SIGNAL, self._end)
        signal.set_wakeup_fd(woken)

    def run(self) -> NoReturn:
        """Serve for ever."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj == self._wake:
                    os.read(self._wake, 4096)
                    self._reap()
                else:
                    self._lost(key.data)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        try:
            request, descriptors = _received(connection)
        except (OSError, ValueError):
            connection.close()
            return
        try:
            pid = os.fork()
        except OSError:  # too many processes, or no memory: Ray is told so where it starts one
            pid = -1
        if pid == 0:
            self._leave(connection)
            request["environment"] |= self._variables
            _become(self._pid, request, descriptors)
        for each in descriptors:
            os.close(each)
        if pid < 0:
            connection.close()
            return
        self._launchers[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ, pid)
        _tell(connection, pid)

    def _leave(self, connection: socket.socket) -> None:
        """In a fork: let go of all that is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(END_SIGNAL, signal.SIG_DFL)
        self._selector.close()
        for each in (self._listener, connection, *self._launchers.values()):
            each.close()
        os.close(self._wake)
        os.close(self._woken)

    def _reap(self) -> None:
        """Tell the launchers of the forks that have ended."""
        while (ended := _ended()) is not None:
            pid, status = ended
            if (connection := self._launchers.pop(pid, None)) is not None:
                _tell(connection, status)
                self._selector.unregister(connection)
                connection.close()

    def _end(self, *_: Any) -> NoReturn:
        """End all forks, and then this process."""
        for pid, connection in self._launchers.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            connection.close()  # its launcher waits for it, and may be a child of this process by now
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()
        os._exit(0)

    def _lost(self, pid: int) -> None:
        """Ray has ended a launcher: its fork is not wanted."""
        if pid in self._launchers:
            self._selector.unregister(self._launchers[pid])
            self._launchers.pop(pid).close()
            os.kill(pid, signal.SIGKILL)


def _ended() -> tuple[int, int] | None:
    """Pid and status of a child that has ended, if there is one."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """What a launcher asks for, and copies of its standard streams and its folder."""
    _, descriptors, _, _ = socket.recv_fds(connection, 1, len(worker_launcher.STREAMS) + 1)
    try:
        with connection.makefile("rb") as lines:
            request: dict[str, Any] = json.loads(lines.readline(MOST_REQUEST_BYTES))
    except (OSError, ValueError):
        for each in descriptors:
            os.close(each)
        raise
    return request, list(descriptors)


def _tell(connection: socket.socket, value: int) -> None:
    with contextlib.suppress(OSError):  # it has been ended
        connection.sendall(b"%d\n" % value)


def _become(parent: int, request: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """In a fork: run a program of Ray as a new process would, which the launcher has become."""
    *streams, folder = descriptors
    os.fchdir(folder)
    os.close(folder)
    for stream, number in zip(streams, worker_launcher.STREAMS, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.setpgid(0, 0)  # Ray ends the process group of a worker together with it
    resource.setrlimit(resource.RLIMIT_NOFILE, request["open_files"])  # Ray has raised it since
    signal.pthread_sigmask(signal.SIG_SETMASK, request["blocked"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["command"]
    if worker_launcher.server_of(sys.argv[0]) == worker_launcher.WORKERS:
        _begin_worker()
    else:
        _begin_service(parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit()


def _begin_service(parent: int) -> None:
    # A driver that is killed takes the launcher with it, whose end would otherwise end this process.
    end_with(parent)
    ctypes.CDLL(None).prctl(PR_SET_NAME, Path(sys.argv[0]).stem.encode(), 0, 0, 0)  # for ps and top
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(write_through=True)  # Ray asks for it by -u


def _begin_worker() -> None:
    import numpy as np

    np.random.seed()  # Python's own generator has a new state after a fork
    name, default = OOM_SCORE
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(os.environ.get(name, default))
    import_all(OF_EACH_WORKER)
    first = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = dict.fromkeys([*first, *sys.path])  # as a new process has it
