"""A process that has imported PyTorch and Lightning, and forks the processes of trials on this PC.

Each of them would import for three to four seconds of a core. The fork server does that once for all, while
the sweep is planned and Ray starts, and its forks share the memory. It forks while it has one thread, before
any use of a GPU. It does not import Ray: each fork reads the environment and draws its random ids itself.

Ray starts a worker by the `py_executable` of its runtime environment, here the launcher
(`worker_launcher.py`), which starts it as usual if there is no fork server.
https://docs.ray.io/en/latest/ray-core/handling-dependencies.html#api-reference
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import runpy
import secrets
import shlex
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from sweeps.common import imports, project
from sweeps.trial import worker_launcher

END_SIGNAL = signal.SIGUSR1
"""Ends a fork server and its forks. A system that shuts down sends SIGTERM, at which trials are saved."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""NumPy and Arrow start threads when they are imported; a fork has none of them, and would wait for them. A
fork has the variables of Ray in their place."""
IMPORTED = (
    "torch._dynamo", "sweeps.training.runs.fit_loop", "sweeps.common.plugins",
    "sweeps.record.trials", "sweeps.training.checkpoints.checkpoint_store",
    "pandas", "pyarrow.fs", "pyarrow.parquet", "tensorboardX", "requests", "rich.pretty", "jsonschema",
    "google.protobuf.struct_pb2", "msgpack", "aiohttp", "pydantic.dataclasses", "greenlet",
)  # fmt: skip
"""No module that draws a random id of Ray, as many of its own do: forks would repeat it."""
PR_SET_PDEATHSIG = 1


@contextlib.contextmanager
def started(variables: Mapping[str, str] = ONE_THREAD) -> Iterator[str]:
    """A fork server as long as the block runs.

    Args:
        variables: of its environment, in addition to those of this process.

    Yields:
        The command by which Ray is to start workers in place of Python, but for its last word, the file of
        facts (see `worker_launcher`).
    """
    name = f"sweeps-forks-{secrets.token_hex(16)}"
    server = _start(name, variables)
    launcher = (sys.executable, "-IS", worker_launcher.__file__, sys.executable, name)
    try:
        yield shlex.join(launcher)
    finally:
        server.send_signal(END_SIGNAL)
        try:
            server.wait(timeout=5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _start(name: str, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    # Where the server has ended nobody answers, since the socket is closed here: a launcher does not wait.
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(worker_launcher.address_of(name))
        listener.listen(128)
        numbers = map(str, (listener.fileno(), os.getpid()))
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "sweeps.trial.fork_server", *numbers],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, **variables, "PYTHONPATH": os.pathsep.join(project.path_behind())},
            pass_fds=[listener.fileno()], process_group=0,
        )  # fmt: skip


def main(number: int, parent: int) -> None:
    """The fork server itself, at the socket with this number; it ends with its parent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    before = dict(os.environ)
    with imports.fast():
        for module in IMPORTED:
            importlib.import_module(module)
    if len(list(Path("/proc/self/task").iterdir())) > 1 or sys.modules["torch"].cuda.is_initialized():
        return  # its forks would have threads that do not run, or a GPU that they can't use
    set_by_imports = {key: value for key, value in os.environ.items() if before.get(key) != value}
    _serve(socket.socket(fileno=number), set_by_imports)


def _serve(listener: socket.socket, variables: Mapping[str, str]) -> NoReturn:
    """Fork on request, for ever."""
    forks: list[int] = []
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Ray finds by itself that a worker has ended
    signal.signal(END_SIGNAL, lambda *_: _end(forks))
    while True:
        connection, _ = listener.accept()
        with connection:
            try:
                request, descriptors = _received(connection)
            except (OSError, ValueError):
                continue
            try:
                pid = os.fork()
            except OSError:  # too many processes, or no memory: Ray is told so where it starts one
                pid = -1
            if pid == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(END_SIGNAL, signal.SIG_DFL)
                listener.close()
                connection.close()
                request["environment"] |= variables
                _become(request, descriptors)
            for each in descriptors:
                os.close(each)
            if pid > 0:
                forks.append(pid)
                with contextlib.suppress(OSError):  # it has been ended
                    connection.sendall(worker_launcher.FORKED)


def _end(forks: Iterable[int]) -> NoReturn:
    """End all forks, and then this process."""
    for pid in forks:
        with contextlib.suppress(ChildProcessError):  # it has ended: another process may have its id
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    os._exit(0)


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """What a launcher asks for, and copies of its standard streams and its folder.

    Raises:
        OSError: it is another user's, or has ended.
        ValueError: it has ended.
    """
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user != os.getuid():
        raise PermissionError
    _, descriptors, _, _ = socket.recv_fds(connection, 1, len(worker_launcher.STREAMS) + 1)
    try:
        with connection.makefile("rb") as lines:
            request: dict[str, Any] = json.loads(lines.readline())
    except (OSError, ValueError):
        for each in descriptors:
            os.close(each)
        raise
    return request, list(descriptors)


def _become(request: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """In a fork: run a program of Ray as a new process would."""
    *streams, folder = descriptors
    os.fchdir(folder)
    os.close(folder)
    for stream, number in zip(streams, worker_launcher.STREAMS, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.setpgid(0, 0)  # Ray ends the process group of a worker together with it
    resource.setrlimit(resource.RLIMIT_NOFILE, request["open_files"])  # Ray has raised it since
    with contextlib.suppress(OSError):  # Ray's for its workers: the kernel ends them before its own processes
        Path("/proc/self/oom_score_adj").write_text("1000")
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.modules["numpy"].random.seed()  # Python's own generator has a new state after a fork
    first = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = dict.fromkeys([*first, *sys.path])  # as a new process has it
    sys.argv = request["command"]
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
