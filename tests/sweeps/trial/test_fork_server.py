"""Processes that are forked in place of Python, with a stand-in for Ray's program of a worker."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sweeps.ray_start import ray_connection
from sweeps.trial import fork_server
from tests.conftest import ROOT
from tests.support import children

WORKER = """
import json, os, random, resource, signal, sys
import numpy as np

is_fork = "torch" in sys.modules
about = {
    "words": sys.argv[1:], "folder": os.getcwd(), "asked": os.environ.get("ASKED"),
    "blas": os.environ.get("OPENBLAS_NUM_THREADS"), "is_fork": is_fork, "has_ray": "ray" in sys.modules,
    "threads": len(os.listdir("/proc/self/task")),
    "pid": os.getpid(), "parent": os.getppid(), "group": os.getpgid(0),
    "random": random.random(), "numpy": np.random.random(),
    "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
    "set_by_lightning": os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK"),
    "oom": int(open("/proc/self/oom_score_adj").read()),
}
print(json.dumps(about), flush=True)
exec(sys.argv[1])
"""
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def command() -> Iterator[list[str]]:
    """What Ray would run in place of Python, with one fork server for all tests."""
    with fork_server.started() as python:
        yield words(python)


def words(python: str) -> list[str]:
    """What Ray would run in place of Python."""
    return [*shlex.split(python), ray_connection.facts_of_this_process()]


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("workers") / "default_worker.py"
    file.write_text(WORKER)
    return str(file)


def servers() -> set[psutil.Process]:
    """The fork servers of this process."""
    return children.running("sweeps.trial.fork_server")


def started_since(before: set[psutil.Process]) -> psutil.Process:
    """The fork server that is no earlier one. A process has its command a moment after it is there."""
    while not (found := servers() - before):
        time.sleep(0.01)
    (server,) = found
    return server


def start(
    command: list[str], worker: str, does: str, **more: Any
) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """A launcher, and what its worker tells of itself."""
    process = subprocess.Popen([*command, worker, does], stdout=subprocess.PIPE, text=True, **more)
    assert process.stdout is not None
    about: dict[str, Any] = json.loads(process.stdout.readline())
    return process, about


@pytest.mark.slow
def test_a_worker_is_a_fork_that_has_what_a_process_of_its_own_would_have(
    command: list[str], worker: str
) -> None:
    process, about = start(command, worker, "pass", cwd="/", env={**os.environ, "ASKED": "yes"})
    assert process.wait() == 0
    assert about["is_fork"]
    assert not about["has_ray"], "it reads the environment when it is imported"
    assert (about["words"], about["folder"], about["asked"]) == (["pass"], str(Path.cwd()), "yes")
    assert about["blas"] == os.environ.get("OPENBLAS_NUM_THREADS")
    assert about["set_by_lightning"] == "1"
    assert about["threads"] == 1
    assert about["group"] == about["pid"], "Ray ends a worker by its process group"
    assert about["oom"] == 1000
    assert psutil.Process(about["parent"]).cmdline()[2:4] == ["-m", "sweeps.trial.fork_server"]


@pytest.mark.parametrize("is_program", [True, False], ids=["a fork", "started as usual"])
def test_a_worker_has_what_the_sweep_has_and_not_the_one_that_started_ray(
    command: list[str], worker: str, is_program: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of Ray it has what Ray has set for it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OF_BOTH", "the second's")
    monkeypatch.setenv("OF_SECOND", "the second's")
    own = [*command[:-1], ray_connection.facts_of_this_process()]
    os.umask(mine := os.umask(0))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    of_first = {"OF_BOTH": "the first's", "OF_FIRST": "the first's", "PATH": os.environ["PATH"]}
    with subprocess.Popen(["sleep", "60"], env=of_first) as raylet:
        asks = "{n: os.environ.get(n) for n in ('OF_BOTH', 'OF_FIRST', 'OF_SECOND', 'OF_RAY', 'PWD')}"
        asks = f"[{asks}, os.umask(0), os.getcwd(), resource.getrlimit(resource.RLIMIT_NOFILE)]"
        asks = f"import json, os, resource; print(json.dumps({asks}))"
        does = [worker, asks] if is_program else ["-c", asks]
        said = subprocess.run(
            [*own, *does],
            env={**of_first, "OF_RAY": "1", "RAY_RAYLET_PID": str(raylet.pid), "SHLVL": "7"},
            cwd="/", stdout=subprocess.PIPE, text=True, check=True, umask=mine ^ 0o077,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard)),
        ).stdout  # fmt: skip
        raylet.kill()
    variables, umask, folder, files = json.loads(said.splitlines()[-1])
    assert variables == {
        "OF_BOTH": "the second's",
        "OF_FIRST": None,
        "OF_SECOND": "the second's",
        "OF_RAY": "1",
        "PWD": os.environ.get("PWD"),
    }
    assert (umask, folder, files) == (mine, str(tmp_path), [soft, hard])


@pytest.mark.slow
def test_two_forks_draw_other_ids_of_ray(command: list[str], worker: str) -> None:
    """A module that draws one while it is imported would have each fork draw the same."""
    does = "import ray; print(ray.WorkerID.from_random().hex(), flush=True)"
    drawn = [start(command, worker, does)[0].communicate()[0].strip() for _ in range(2)]
    assert len(set(drawn)) == 2


def test_two_forks_draw_other_numbers(command: list[str], worker: str) -> None:
    one, other = (start(command, worker, "pass")[1] for _ in range(2))
    assert one["random"] != other["random"]
    assert one["numpy"] != other["numpy"]


@pytest.mark.slow
@pytest.mark.parametrize("does", ["sys.exit(3)", "os.kill(os.getpid(), 9)", "1 / 0", "os.abort()"])
def test_a_worker_that_ends_takes_down_nobody_else_and_leaves_nothing(
    command: list[str], worker: str, does: str
) -> None:
    other, about = start(command, worker, "sys.stdin.readline()", stdin=subprocess.PIPE)
    process, gone = start(command, worker, does, stderr=subprocess.DEVNULL)
    process.communicate()
    wait_until_gone(gone["pid"])
    assert psutil.pid_exists(about["pid"])
    other.communicate("go on\n")
    wait_until_gone(about["pid"])


def wait_until_gone(pid: int) -> None:
    """Wait for the end of a fork, which this process has not started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(PATIENCE_S)


def test_another_program_is_started_as_usual(command: list[str]) -> None:
    done = subprocess.run(
        [*command, "-c", "import sys; print('torch' in sys.modules)"], capture_output=True, text=True
    )
    assert done.stdout == "False\n"


def test_without_a_fork_server_a_worker_is_started_as_usual(worker: str) -> None:
    before = servers()
    with fork_server.started() as python:
        server = started_since(before)
        server.kill()
        server.wait()
        process, about = start(words(python), worker, "pass")
        assert process.wait() == 0
        assert not about["is_fork"]


def test_a_fork_server_ends_with_what_started_it() -> None:
    before = servers()
    with fork_server.started():
        server = started_since(before)
    assert not server.is_running()


@pytest.mark.slow
def test_a_worker_ends_with_the_fork_servers_whatever_it_does(worker: str) -> None:
    with fork_server.started() as python:
        ignores = "import signal, time\nfor each in (1, 2, 10, 15): signal.signal(each, signal.SIG_IGN)"
        process, about = start(words(python), worker, f"{ignores}\ntime.sleep(600)")
        assert about["is_fork"]
    assert not psutil.pid_exists(about["pid"])
    process.wait(PATIENCE_S)


def test_a_fork_server_whose_parent_has_gone_ends() -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        of_another = [str(listener.fileno()), str(os.getppid())]
        done = subprocess.run(
            [sys.executable, "-m", "sweeps.trial.fork_server", *of_another],
            cwd=ROOT, pass_fds=[listener.fileno()], timeout=PATIENCE_S,
        )  # fmt: skip
    assert done.returncode == 0


@pytest.mark.slow
def test_a_fork_server_with_threads_forks_nobody(worker: str) -> None:
    """Threads of a library that reads its environment in another way than is known here."""
    threads = {"JE_ARROW_MALLOC_CONF": "background_thread:true"}
    with fork_server.started(threads) as python:
        process, about = start(words(python), worker, "pass")
        assert process.wait() == 0
        assert not about["is_fork"]
