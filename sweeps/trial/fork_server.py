"""A process that has imported PyTorch and Lightning, and forks the workers of a Ray on this PC.

A worker imports for three to four seconds of a core before it trains. The fork server does most of that once
for all of them, while the sweep is planned and Ray starts, and its forks share that memory. It forks while it
has one thread, before any use of a GPU, and without Ray, which each fork imports for itself. Ray starts a
worker by the `py_executable` of its runtime environment: the launcher (`worker_launcher.py`), which starts it
as usual where the fork server has failed.
https://docs.ray.io/en/latest/ray-core/handling-dependencies.html#api-reference
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import runpy
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from sweeps.common import gc_freeze
from sweeps.storage import scratch
from sweeps.trial import worker_launcher

PREFIX = "sweeps-forks-"
"""Of the folder of its socket."""
JUST_MADE_S = 1.0
"""So young, a folder may not be claimed yet."""
LONGEST_ADDRESS = 100
"""Bytes of the path of a socket."""
MOST_REQUEST_BYTES = 4 * 2**20
OOM_SCORE = ("RAY_worker_oom_score_adjustment", "1000")
"""Ray's setting, and its default: the kernel ends workers before Ray's other processes."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""NumPy and Arrow start threads when they are imported; a fork has none of them, and would wait for them."""
SHARED = (
    "torch._dynamo", "sweeps.training.fit_loop", "sweeps.training.first_steps",
    "pandas", "pyarrow.fs", "pyarrow.parquet", "tensorboardX", "requests", "rich.console", "jsonschema",
    "google.protobuf.message", "msgpack", "aiohttp",
)  # fmt: skip
"""What a worker imports, and what Ray does; not Ray itself, which reads the environment of its process."""
OF_RAY = ("ray.tune", "sweeps.trial.trainable", "sweeps.trial.runner")
"""What each fork imports for itself."""


@contextlib.contextmanager
def started(variables: Mapping[str, str] = ONE_THREAD) -> Iterator[str | None]:
    """A fork server as long as the block runs.

    Args:
        variables: of its environment, in addition to those of this process.

    Yields:
        The command by which Ray is to start workers in place of Python; None where there can be none.
    """
    with contextlib.ExitStack() as stack:
        yield _start(stack, variables) if sys.platform == "linux" else None


def _start(stack: contextlib.ExitStack, variables: Mapping[str, str]) -> str:
    base = Path(tempfile.gettempdir() if len(tempfile.gettempdir()) < LONGEST_ADDRESS / 2 else "/tmp")
    scratch.remove_left(f"{PREFIX}*", base, older_than_s=JUST_MADE_S)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX, dir=base))
    stack.callback(os.close, scratch.claim(Path(folder)))
    address = str(Path(folder, "socket"))
    listener = stack.enter_context(socket.socket(socket.AF_UNIX))
    listener.bind(address)
    listener.listen(128)
    server = subprocess.Popen(
        [sys.executable, "-P", "-m", "sweeps.trial.fork_server", str(listener.fileno()), str(os.getpid())],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, **variables, "PYTHONPATH": os.pathsep.join(sys.path)},
        pass_fds=[listener.fileno()], process_group=0,
    )  # fmt: skip
    listener.close()  # where the server has ended nobody answers, and a launcher does not wait
    stack.callback(_end, server)
    return shlex.join((sys.executable, "-IS", worker_launcher.__file__, sys.executable, address))


def _end(server: subprocess.Popen[bytes]) -> None:
    server.kill()
    server.wait()


def main(number: int, parent: int) -> None:
    """The fork server itself, at the socket with this number; it ends with its parent."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:  # it has gone before that
        return
    listener = socket.socket(fileno=number)
    before = dict(os.environ)
    _import(SHARED)
    import torch

    uses_gpu: Any = torch.cuda.is_initialized  # it has no annotations
    if len(list(Path("/proc/self/task").iterdir())) > 1 or uses_gpu():
        return  # its forks would have threads that do not run, or a GPU that they can't use
    Server(listener, {name: value for name, value in os.environ.items() if before.get(name) != value}).run()


class Server:
    """Forks on request, and tells each launcher when and how its worker has ended.

    Args:
        listener: the socket, listening.
        variables: of the environment, which the imports have set.
    """

    def __init__(self, listener: socket.socket, variables: Mapping[str, str]) -> None:
        self._listener = listener
        self._variables = variables
        self._launchers: dict[int, socket.socket] = {}
        """Pid of a worker to the connection of its launcher."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._woken = woken
        signal.signal(signal.SIGCHLD, lambda *_: None)
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
            _become({**request, "environment": {**request["environment"], **self._variables}}, descriptors)
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
        self._selector.close()
        for each in (self._listener, connection, *self._launchers.values()):
            each.close()
        os.close(self._wake)
        os.close(self._woken)

    def _reap(self) -> None:
        """Tell the launchers of the workers that have ended."""
        while (ended := _ended()) is not None:
            pid, status = ended
            if (connection := self._launchers.pop(pid, None)) is not None:
                _tell(connection, status)
                self._selector.unregister(connection)
                connection.close()

    def _lost(self, pid: int) -> None:
        """Ray has ended a launcher: its worker is not wanted."""
        if pid in self._launchers:
            self._selector.unregister(self._launchers[pid])
            self._launchers.pop(pid).close()
            os.kill(pid, signal.SIGKILL)


def _import(names: Sequence[str]) -> None:
    with gc_freeze.uncollected():
        for name in names:
            importlib.import_module(name)


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


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """In a fork: run Ray's program of a worker as a new process would."""
    *streams, folder = descriptors
    os.fchdir(folder)
    os.close(folder)
    for stream, number in zip(streams, worker_launcher.STREAMS, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.setpgid(0, 0)  # Ray ends the process group of a worker together with it
    os.environ.clear()
    os.environ.update(request["environment"])
    name, default = OOM_SCORE
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(os.environ.get(name, default))
    import numpy as np

    np.random.seed()  # Python's own generator has a new state after a fork
    sys.argv = list(request["command"])
    _import(OF_RAY)
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
