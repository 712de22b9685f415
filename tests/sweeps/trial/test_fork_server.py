"""Processes that are forked in place of Python, with a stand-in for Ray's program of a worker."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sweeps.trial import fork_server, worker_launcher
from tests.conftest import ROOT
from tests.support import children

WORKER = """
import json, os, random, resource, sys
import numpy as np

is_fork = "torch" in sys.modules
about = {
    "words": sys.argv[1:], "folder": os.getcwd(), "asked": os.environ.get("ASKED"),
    "blas": os.environ.get("OPENBLAS_NUM_THREADS"), "is_fork": is_fork, "has_ray": "ray.tune" in sys.modules,
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
SERVICE = """
import json, os, signal, sys
is_fork = "ray" in sys.modules
import ray
about = {
    "words": sys.argv[1:], "is_fork": is_fork, "has_torch": "torch" in sys.modules,
    "pid": os.getpid(), "parent": os.getppid(), "name": open("/proc/self/comm").read().strip(),
    "oom": int(open("/proc/self/oom_score_adj").read()), "id": ray.WorkerID.from_random().hex(),
    "blocked": list(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
    "has_numpy": "numpy" in sys.modules,
}
print(json.dumps(about))
exec(sys.argv[1])
"""
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def command() -> Iterator[list[str]]:
    """What Ray would run in place of Python, with one fork server for all tests."""
    with fork_server.started() as python:
        assert python is not None
        yield [str(python)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("services") / "_private" / "log_monitor.py"
    file.parent.mkdir()
    file.write_text(SERVICE)
    return str(file)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("workers") / "default_worker.py"
    file.write_text(WORKER)
    return str(file)


def servers() -> set[psutil.Process]:
    """The fork servers of this process."""
    return children.running("sweeps.trial.fork_server")


def of(name: str, among: set[psutil.Process]) -> psutil.Process:
    (server,) = (each for each in among if name in each.cmdline())
    return server


def start(
    command: list[str], worker: str, does: str, **more: Any
) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """A launcher, and what its worker tells of itself."""
    process = subprocess.Popen([*command, worker, does], stdout=subprocess.PIPE, text=True, **more)
    assert process.stdout is not None
    about: dict[str, Any] = json.loads(process.stdout.readline())
    return process, about


def test_a_worker_is_a_fork_that_has_what_a_process_of_its_own_would_have(
    command: list[str], worker: str, tmp_path: Path
) -> None:
    process, about = start(command, worker, "pass", cwd=tmp_path, env={**os.environ, "ASKED": "yes"})
    assert process.wait() == 0
    assert about["is_fork"]
    assert about["has_ray"]
    assert (about["words"], about["folder"], about["asked"]) == (["pass"], str(tmp_path), "yes")
    assert about["blas"] == os.environ.get("OPENBLAS_NUM_THREADS")
    assert about["set_by_lightning"] == "1"
    assert about["threads"] == 1
    assert about["group"] == about["pid"], "Ray ends a worker by its process group"
    assert about["oom"] == 1000
    assert psutil.Process(about["parent"]).cmdline()[2:4] == ["-m", "sweeps.trial.fork_server"]


@pytest.mark.parametrize("program", worker_launcher.PROGRAMS)
def test_each_program_that_is_forked_is_there(program: str) -> None:
    spec = importlib.util.find_spec("sweeps" if program.startswith("/sweeps/") else "ray")
    assert spec is not None
    (folder,) = spec.submodule_search_locations or ()
    assert [file for file in Path(folder).rglob(program.rpartition("/")[2]) if str(file).endswith(program)]


def test_a_service_of_ray_is_a_fork_that_has_imported_ray_alone(command: list[str], service: str) -> None:
    process, about = start(
        [*command, "-u"], service, "sys.stdin.readline(); sys.exit(3)", stdin=subprocess.PIPE
    )
    process.communicate("what it had printed was here at once\n")
    assert process.returncode == 3
    assert about["words"] == ["sys.stdin.readline(); sys.exit(3)"]
    assert about["is_fork"]
    assert about["blocked"] == []
    assert not about["has_numpy"], "a tenth of a second of each service"
    assert not about["has_torch"]
    assert about["name"] == "log_monitor", "what ps and top show"
    assert about["oom"] == int(Path("/proc/self/oom_score_adj").read_text()), "the kernel ends workers first"
    assert psutil.Process(about["parent"]).cmdline()[3:5] == ["sweeps.trial.fork_server", "services"]


def test_a_fork_has_the_limits_and_the_blocked_signals_of_its_launcher(
    command: list[str], worker: str, service: str
) -> None:
    """Ray raises the limit of open files when it starts, and blocks Ctrl-C for its services."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    other = soft - 1
    _, about = start(
        command, worker, "pass", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (other, hard))
    )
    assert about["open_files"] == [other, hard]
    _, about = start(
        command, service, "pass", preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    )
    assert about["blocked"] == [signal.SIGINT]


def test_a_service_of_ray_ends_with_its_fork_server(service: str) -> None:
    before = servers()
    with fork_server.started() as python:
        server = of(worker_launcher.SERVICES, servers() - before)
        process, about = start([str(python)], service, "import time; time.sleep(600)")
        fork = psutil.Process(about["pid"])
        server.kill()
        fork.wait(PATIENCE_S)
        assert process.wait(PATIENCE_S) == -signal.SIGKILL


def test_a_launcher_that_is_told_to_end_when_its_fork_has_just_ended_starts_nothing(
    service: str, tmp_path: Path
) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / worker_launcher.SERVICES))
        server.listen()
        command = [sys.executable, worker_launcher.__file__, sys.executable, str(tmp_path), service, "pass"]
        launcher = subprocess.Popen(command, stdout=subprocess.PIPE)
        connection, _ = server.accept()
        with connection:
            connection.recv(1)
            connection.sendall(b"%d\n" % gone.pid)
            while not has_handler(launcher.pid):
                time.sleep(0.01)
            launcher.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            connection.sendall(b"%d\n" % signal.SIGTERM)
        assert launcher.communicate(timeout=PATIENCE_S)[0] == b""
        assert launcher.returncode == -signal.SIGTERM


def has_handler(pid: int) -> bool:
    """Whether a process catches SIGTERM."""
    caught = next(
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt")
    )
    return bool(int(caught.split()[1], 16) & 1 << (signal.SIGTERM - 1))


def test_two_forks_draw_other_ids_of_ray(command: list[str], worker: str, service: str) -> None:
    """A module that draws one while it is imported would have each fork draw the same."""
    drawn = [start(command, service, "pass")[1]["id"] for _ in range(2)]
    does = "import ray; print(ray.WorkerID.from_random().hex(), flush=True)"
    for _ in range(2):
        process, _ = start(command, worker, does)
        drawn.append(process.communicate()[0].strip())
    assert len(set(drawn)) == 4


def test_two_forks_draw_other_numbers(command: list[str], worker: str) -> None:
    one, other = (start(command, worker, "pass")[1] for _ in range(2))
    assert one["random"] != other["random"]
    assert one["numpy"] != other["numpy"]


@pytest.mark.parametrize(
    ("does", "status"),
    [
        ("sys.exit(3)", 3),
        ("os._exit(4)", 4),
        ("os.kill(os.getpid(), 9)", -9),
        ("1 / 0", 1),
        ("os.abort()", -6),
    ],
)
def test_a_launcher_ends_as_its_worker_does_and_takes_down_nobody_else(
    command: list[str], worker: str, does: str, status: int
) -> None:
    other, about = start(command, worker, "sys.stdin.readline()", stdin=subprocess.PIPE)
    process, _ = start(command, worker, does, stderr=subprocess.DEVNULL)
    assert process.wait() == status
    assert psutil.pid_exists(about["pid"])
    other.communicate("go on\n")
    assert other.returncode == 0


def test_a_worker_ends_with_its_launcher(command: list[str], worker: str) -> None:
    process, about = start(command, worker, "import time; time.sleep(600)")
    process.send_signal(signal.SIGKILL)
    process.wait()
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(about["pid"]).wait(PATIENCE_S)


def test_sigterm_to_a_launcher_reaches_its_worker_which_saves(command: list[str], worker: str) -> None:
    saves = "import signal; signal.signal(15, lambda *_: (print('saved', flush=True), sys.exit(5)))"
    process, _ = start(command, worker, f"{saves}; print('ready', flush=True); import time; time.sleep(600)")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 5
    assert process.stdout.readline() == "saved\n"


def test_another_program_is_started_as_usual(command: list[str]) -> None:
    done = subprocess.run(
        [*command, "-c", "import sys; print('torch' in sys.modules)"], capture_output=True, text=True
    )
    assert done.stdout == "False\n"


def test_without_a_fork_server_a_worker_is_started_as_usual(worker: str) -> None:
    before = servers()
    with fork_server.started() as python:
        assert python is not None
        server = of(worker_launcher.WORKERS, servers() - before)
        server.kill()
        server.wait()
        process, about = start([str(python)], worker, "pass")
        assert process.wait() == 0
        assert not about["is_fork"]


def test_a_fork_server_ends_with_what_started_it() -> None:
    before = servers()
    with fork_server.started():
        started = servers() - before
        assert len(started) == len(fork_server.IMPORTED)
    assert not any(server.is_running() for server in started)


def test_a_worker_ends_with_the_fork_servers_whatever_it_does(worker: str) -> None:
    with fork_server.started() as python:
        assert python is not None
        ignores = "import signal, time\nfor each in (1, 2, 10, 15): signal.signal(each, signal.SIG_IGN)"
        process, about = start([str(python)], worker, f"{ignores}\ntime.sleep(600)")
        assert about["is_fork"]
    assert not psutil.pid_exists(about["pid"])
    process.wait(PATIENCE_S)


STARTS = """
import time
from sweeps.trial import fork_server
with fork_server.started() as python:
    print(python, flush=True)
    time.sleep(600)
"""


def test_the_folder_of_a_driver_that_was_killed_is_removed_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:  # of a short name, for a socket
        monkeypatch.setattr(tempfile, "tempdir", temporary)
        drivers, folders = [], []
        for _ in range(2):
            driver = subprocess.Popen(
                [sys.executable, "-c", STARTS], cwd=ROOT, env={**os.environ, "TMPDIR": temporary},
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert driver.stdout is not None
            folder = Path(driver.stdout.readline()).parent
            long_ago = time.time() - 60
            os.utime(folder, (long_ago, long_ago))
            drivers.append(driver)
            folders.append(folder)
        drivers[0].kill()
        drivers[0].communicate()
        assert folders[0].is_dir()
        with fork_server.started():
            assert [folder.is_dir() for folder in folders] == [False, True]
        drivers[1].kill()
        drivers[1].communicate()


def test_a_fork_server_whose_parent_has_gone_ends() -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        of_another = [worker_launcher.WORKERS, str(listener.fileno()), str(os.getppid())]
        done = subprocess.run(
            [sys.executable, "-m", "sweeps.trial.fork_server", *of_another],
            cwd=ROOT, pass_fds=[listener.fileno()], timeout=PATIENCE_S,
        )  # fmt: skip
    assert done.returncode == 0


def test_a_fork_server_with_threads_forks_nobody(worker: str) -> None:
    """Threads of a library that reads its environment in another way than is known here."""
    threads = {"JE_ARROW_MALLOC_CONF": "background_thread:true"}
    with fork_server.started(dict.fromkeys(fork_server.IMPORTED, threads)) as python:
        assert python is not None
        process, about = start([str(python)], worker, "pass")
        assert process.wait() == 0
        assert not about["is_fork"]
