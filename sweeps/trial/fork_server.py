"""Processes that have imported what Ray's own need, and fork them on this PC in place of new ones.

A worker imports for three to four seconds of a core before it trains, and each of the six other programs of
Ray for half a second or more. Two fork servers do most of that once for all of them, while the sweep is
planned and Ray starts, and their forks share that memory: one has imported PyTorch and Lightning, for
workers; the other one Ray, for its other programs. They fork while they have one thread, before any use of a
GPU. A worker imports Ray for itself, which then reads the environment of that process.

Ray starts its programs by `sys.executable`, and a worker by the `py_executable` of its runtime environment.
Both are the launcher (`worker_launcher.py`), which starts a program as usual if its fork server failed.
https://docs.ray.io/en/latest/ray-core/handling-dependencies.html#api-reference
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from sweeps.common import machine_folders, project
from sweeps.storage import scratch
from sweeps.trial import forking, worker_launcher

PREFIX = "sweeps-forks-"
"""Of the folder of their sockets."""
JUST_MADE_S = 1.0
"""So young, a folder may not be claimed yet."""
END_S = 5.0
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""NumPy and Arrow start threads when they are imported; a fork has none of them, and would wait for them."""
START_WAIT = "RAY_raylet_start_wait_time_s"
Variables = Mapping[str, Mapping[str, str]]
"""Of the environment, by fork server."""
VARIABLES: Variables = {
    # The process that starts Ray asks whether the raylet has registered before it can have. Then it sleeps
    # for a second; with 0 it asks again at once, for 30 s, though half of its questions get no answer in time
    # (src/ray/gcs_rpc_client/global_state_accessor.cc). Ray reads this when it is imported. No worker may
    # have it: a worker asks only once, and ends without an answer.
    worker_launcher.SERVICES: {**ONE_THREAD, START_WAIT: os.environ.get(START_WAIT, "0")},
    worker_launcher.WORKERS: ONE_THREAD,
}
"""A fork has those of Ray in their place."""
IMPORTED = {
    worker_launcher.SERVICES: (
        "ray", "aiohttp.web", "requests", "jsonschema", "opentelemetry.exporter.prometheus", "pydantic",
        "prometheus_client",
    ),
    worker_launcher.WORKERS: (
        "torch._dynamo", "sweeps.training.fit_loop", "sweeps.training.first_steps", "sweeps.common.plugins",
        "sweeps.record.trials", "sweeps.storage.folder_copy", "sweeps.training.checkpoint_store",
        "pandas", "pyarrow.fs", "pyarrow.parquet", "tensorboardX", "requests", "rich.pretty", "jsonschema",
        "google.protobuf.struct_pb2", "msgpack", "aiohttp", "pydantic.dataclasses", "greenlet",
    ),
}  # fmt: skip
"""By fork server; they end in the other order. No module that draws a random id of Ray, as many of its own
do: forks would repeat it."""


@contextlib.contextmanager
def started(variables: Variables = VARIABLES) -> Iterator[Path | None]:
    """The fork servers as long as the block runs.

    Args:
        variables: of their environment, in addition to those of this process.

    Yields:
        The program by which Ray is to start its processes in place of Python; None where there can be none.
    """
    with contextlib.ExitStack() as stack:
        yield _start(stack, variables) if sys.platform == "linux" else None


def _start(stack: contextlib.ExitStack, variables: Variables) -> Path:
    base = machine_folders.for_sockets()
    scratch.remove_left(f"{PREFIX}*", base, older_than_s=JUST_MADE_S)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX, dir=base)))
    stack.callback(os.close, scratch.claim(folder))
    for name in IMPORTED:
        stack.callback(_end, _server(name, folder, variables[name]))
    program = folder / "python"
    words = shlex.join((sys.executable, "-IS", worker_launcher.__file__, sys.executable, str(folder)))
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o700)
    return program


def _server(name: str, folder: Path, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    # Where the server has ended nobody answers, since the socket is closed here: a launcher does not wait.
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / name))
        listener.listen(128)
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "sweeps.trial.fork_server",
             name, str(listener.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, **variables, "PYTHONPATH": os.pathsep.join(project.path_behind())},
            pass_fds=[listener.fileno()], process_group=0,
        )  # fmt: skip


def _end(server: subprocess.Popen[bytes]) -> None:
    """End a fork server, which ends its forks before."""
    server.send_signal(forking.END_SIGNAL)
    try:
        server.wait(END_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def main(name: str, number: int, parent: int) -> None:
    """A fork server itself, at the socket with this number; it ends with its parent."""
    forking.end_with(parent)
    listener = socket.socket(fileno=number)
    if name == worker_launcher.SERVICES:
        forking.adopt_orphans()  # of Ray's, which is ended at once; what a trial has started is the user's
        select.select([listener], [], [])  # until then the cores are for the imports of others
    before = dict(os.environ)
    forking.import_all(IMPORTED[name])
    if len(list(Path("/proc/self/task").iterdir())) > 1 or _uses_gpu():
        return  # its forks would have threads that do not run, or a GPU that they can't use
    set_by_imports = {key: value for key, value in os.environ.items() if before.get(key) != value}
    forking.Server(listener, set_by_imports).run()


def _uses_gpu() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
