"""A project of the user's own, run from its folder on a Ray cluster that is there already."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps import cluster, flags
from sweeps.cluster import PC
from sweeps.config import UserError
from sweeps.record import Record
from tests.conftest import ROOT

INSTALLED = {"PYTHONPATH": str(ROOT), "RAY_AUTH_MODE": "disabled"}
"""As if this package were installed on every PC."""


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("attempts")


@pytest.fixture(scope="module")
def address(attempts: Path) -> Iterator[str]:
    """A PC on which this package is installed."""
    with _head({**INSTALLED, "TOY_ATTEMPTS": str(attempts)}) as address:
        yield address


@contextlib.contextmanager
def _head(settings: dict[str, str]) -> Iterator[str]:
    """A Ray head of our own: own port, own folder, ended by its process group."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # a socket's path must be short
    command = [
        *(str(Path(sys.executable).parent / "ray"), "start", "--head", "--block", "--num-cpus=2"),
        *(
            "--node-ip-address=127.0.0.1",
            f"--port={port}",
            "--include-dashboard=false",
            f"--temp-dir={folder}",
        ),
    ]
    environment = {**os.environ, **settings, "RAY_USAGE_STATS_ENABLED": "0"}
    environment["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] = "0"
    head = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    yield f"127.0.0.1:{port}"
    os.killpg(head.pid, signal.SIGTERM)
    head.wait(timeout=60)
    shutil.rmtree(folder, ignore_errors=True)


def test_a_users_own_project_on_a_cluster(address: str, tmp_path: Path) -> None:
    project = tmp_path / "my_project"
    project.mkdir()
    (project / "__init__.py").touch()
    shutil.copy(ROOT / "tests" / "faulty" / "toy.py", project / "model.py")
    shutil.copy(ROOT / "tests" / "faulty" / "slopes.py", project / "space.py")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sweeps.run", "--address", address, "--name", "mine"),
            *("--trainable", "my_project.model", "--search-space", "my_project.space"),
            *("--num-trials", "3", "--max-epochs", "3", "--searcher", "random"),
        ],
        cwd=tmp_path,
        env={**os.environ, **INSTALLED},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"on the Ray cluster at {address}" in done.stdout
    assert [trial.status for trial in Record.read(tmp_path / "results" / "mine").trials] == ["finished"] * 3


def test_pcs_without_this_package_end_the_sweep_at_once_and_say_so(tmp_path: Path) -> None:
    with _head({"RAY_AUTH_MODE": "disabled", "PYTHONPATH": ""}) as address:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "sweeps.run", "--address", address, "--name", "none"),
                *("--trainable", "digits_mlp", "--num-trials", "4"),
            ],
            cwd=tmp_path,
            env={**os.environ, **INSTALLED},
            capture_output=True,
            text=True,
            timeout=180,
        )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "no trial can start on a worker: ModuleNotFoundError: No module named 'sweeps'" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_slots_are_what_the_pcs_hold_each_by_itself() -> None:
    config = flags.parse(["--cpus-per-trial", "2", "--gpus-per-trial", "0.5"])
    assert cluster.slots(config, [PC(16, 2)]) == 4
    assert cluster.slots(config, [PC(6, 2)]) == 3
    assert cluster.slots(config, [PC(16, 2), PC(2, 1)]) == 5
    assert cluster.slots(flags.parse(["--gpus-per-trial", "0.4"]), [PC(16, 2)]) == 4
    assert cluster.slots(flags.parse(["--max-concurrent", "3"]), [PC(16, 0)]) == 3


def test_a_trial_that_fits_on_no_pc_is_refused() -> None:
    config = flags.parse(["--cpus-per-trial", "3"])
    with pytest.raises(UserError, match=r"3 CPUs and 0 GPUs .* no PC has that: 2 CPUs, 0 GPUs; 2 CPUs"):
        cluster.slots(config, [PC(2, 0), PC(2, 0)])


def test_a_gpu_is_taken_where_there_is_one() -> None:
    config = flags.parse([])
    assert cluster.gpus_per_trial(config, [PC(16, 0)]) == 0
    assert cluster.gpus_per_trial(config, [PC(4, 0), PC(16, 2)]) == 1
    assert cluster.slots(config, [PC(16, 2)]) == 2
