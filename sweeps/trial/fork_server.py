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
from sweeps.trial import worker_launcher

LONGEST_ADDRESS = 100
"""Bytes of the path of a socket."""
MOST_REQUEST_BYTES = 4 * 2**20
OOM_SCORE = ("RAY_worker_oom_score_adjustment", "1000")
"""Ray's setting, and its default: the kernel ends workers before Ray's other processes."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""NumPy and Arrow start threads when they are imported; a fork has none of them, and would wait for them."""
IMPORTED = (
    "torch._dynamo", "sweeps.training.fit_loop", "sweeps.training.first_steps",
    "pandas", "pyarrow.fs", "pyarrow.parquet", "tensorboardX", "requests", "rich.console", "jsonschema",
    "google.protobuf.message", "msgpack", "aiohttp",
)  # fmt: skip
"""What a worker imports, and what Ray does; not Ray itself, which reads the environment of its process."""


@contextlib.contextmanager
def started() -> Iterator[str | None]:
    """A fork server as long as the block runs.

    Yields:
        The command by which Ray is to start workers in place of Python; None where there can be none.
    """
    with contextlib.ExitStack() as stack:
        yield _start(stack) if sys.platform == "linux" else None


def _start(stack: contextlib.ExitStack) -> str:
    base = None if len(tempfile.gettempdir()) < LONGEST_ADDRESS / 2 else "/tmp"
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sweeps-forks-", dir=base))
    address = str(Path(folder, "socket"))
    listener = stack.enter_context(socket.socket(socket.AF_UNIX))
    listener.bind(address)
    listener.listen(128)
    server = subprocess.Popen(
        [sys.executable, "-P", "-m", "sweeps.trial.fork_server", str(listener.fileno())],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(sys.path)},
        pass_fds=[listener.fileno()], process_group=0,
    )  # fmt: skip
    listener.close()  # where the server has ended nobody answers, and a launcher does not wait
    stack.callback(_end, server)
    return shlex.join((sys.executable, "-IS", worker_launcher.__file__, sys.executable, address))


def _end(server: subprocess.Popen[bytes]) -> None:
    server.kill()
    server.wait()


def main(number: int) -> None:
    """The fork server itself, at the socket with this number."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: end with the sweep
    listener = socket.socket(fileno=number)
    before = dict(os.environ)
    with gc_freeze.uncollected():
        for name in IMPORTED:
            importlib.import_module(name)
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
            request, streams = _received(connection)
        except (OSError, ValueError):
            connection.close()
            return
        pid = os.fork()
        if pid == 0:
            self._leave(connection)
            _become({**request, "environment": {**request["environment"], **self._variables}}, streams)
        for stream in streams:
            os.close(stream)
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


def _ended() -> tuple[int, int] | None:
    """Pid and status of a child that has ended, if there is one."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    _, streams, _, _ = socket.recv_fds(connection, 1, len(worker_launcher.STREAMS))
    try:
        with connection.makefile("rb") as lines:
            request: dict[str, Any] = json.loads(lines.readline(MOST_REQUEST_BYTES))
    except (OSError, ValueError):
        for stream in streams:
            os.close(stream)
        raise
    return request, list(streams)


def _tell(connection: socket.socket, value: int) -> None:
    with contextlib.suppress(OSError):  # it has been ended
        connection.sendall(b"%d\n" % value)


def _become(request: dict[str, Any], streams: Sequence[int]) -> NoReturn:
    """In a fork: run Ray's program of a worker as a new process would."""
    for stream, number in zip(streams, worker_launcher.STREAMS, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.setpgid(0, 0)  # Ray ends the process group of a worker together with it
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    name, default = OOM_SCORE
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(os.environ.get(name, default))
    import numpy as np

    np.random.seed()  # Python's own generator has a new state after a fork
    sys.argv = list(request["command"])
    with gc_freeze.uncollected():
        import ray.tune  # noqa: F401

        from sweeps.trial import runner, trainable  # noqa: F401
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    main(int(sys.argv[1]))
