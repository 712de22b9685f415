"""A laptop that is not of a cluster, by PCs of a lab: it hands a sweep over by SSH, or joins."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.record.record import Record
from tests.support import project
from tests.support.cluster_of_pcs import PYTHON, RAY, TOKEN, VENV, give_token, start_head
from tests.support.lab import HOME, PC, ROOT, Lab, wait_until

FOLDER = Path("/tmp/project")
INSTALLED = {"PYTHONPATH": str(ROOT), "TOY_ATTEMPTS": "/tmp"}


@pytest.fixture(scope="module")
def pcs(lab_of: Callable[..., Lab]) -> tuple[PC, PC, str]:
    """A laptop with a project, a head with SSH, and the head's address."""
    laptop, head = lab_of(2).pcs
    head.sshd("Subsystem=sftp internal-sftp")
    activated = f"{VENV / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    address = start_head(head, PATH=activated, **INSTALLED)
    give_token(laptop)
    laptop.path(FOLDER).mkdir()
    project.write(laptop.path(FOLDER))
    return laptop, head, address


def _sweep(laptop: PC, *arguments: str) -> subprocess.CompletedProcess[str]:
    typed = shlex.join([PYTHON, "-m", "sweeps.run", *project.RUN, *arguments])
    return laptop.run("sh", "-c", f"cd {FOLDER} && {typed}", env=INSTALLED, check=False, timeout_s=300)


@pytest.mark.long
def test_a_sweep_from_a_pc_that_joined(pcs: tuple[PC, PC, str]) -> None:
    """The driver is not on the head: the record stays on the laptop, checkpoints go to the head by SFTP."""
    laptop, head, address = pcs
    where = ("--address", address, "--storage", f"sftp://root@{head.address}{HOME}/checkpoints")
    refused = _sweep(laptop, *where)
    assert refused.returncode == 2
    assert f"error: --address {address}: this PC is not part of that cluster" in refused.stdout
    laptop.run(
        RAY, "start", f"--address={address}", *("--num-cpus=1", "--object-store-memory=100000000"),
        env={"RAY_AUTH_MODE": "token", **INSTALLED},
    )  # fmt: skip
    done = _sweep(laptop, *where, "--max-concurrent", "2", "--params", "epoch_s=1")
    assert done.returncode == 0, done.stdout
    folder = laptop.path(FOLDER / "results" / "mine")
    trials = Record.read(folder).trials
    assert [trial.status for trial in trials] == ["finished"] * 3
    assert {trial.place["pc"] for trial in trials} == {laptop.name, head.name}
    assert (folder / "best" / "weights.pt").is_file()
    laptop.run(RAY, "stop")


@pytest.mark.long
def test_a_sweep_is_handed_over_through_ssh_and_fetched(pcs: tuple[PC, PC, str]) -> None:
    """As the README has it: ssh -L to the dashboard of the head alone, ray job logs, rsync."""
    laptop, head, _ = pcs
    tunnel = laptop.start("ssh", "-N", "-L", "8265:127.0.0.1:8265", f"root@{head.address}")
    wait_until(lambda: _answers(laptop), "the dashboard at the end of the tunnel")
    done = _sweep(laptop, "--submit", "--address", "http://127.0.0.1:8265")
    assert done.returncode == 0, done.stdout
    follow = _line(done.stdout, "Follow")
    log = laptop.run("sh", "-c", follow, timeout_s=120).stdout
    assert "\nBest       trial" in log
    fetch = _line(done.stdout, "Fetch").replace("HEAD:", f"{head.name}:")
    laptop.run("sh", "-c", f"cd /tmp && {fetch}", timeout_s=60)
    assert len(Record.read(laptop.path("/tmp/mine")).trials) == 3

    jobs = laptop.run(
        RAY, "job", "list", "--address", "http://127.0.0.1:8265", env={"RAY_AUTH_MODE": "token"}
    ).stdout
    assert "mine" in jobs
    assert TOKEN not in jobs + log + done.stdout
    assert head.path("/tmp/ray").is_dir()
    found = head.run("grep", "-rlsF", TOKEN, "/tmp/ray", check=False)  # its status is 1: nothing
    assert found.stdout == ""
    laptop.signal(tunnel, signal.SIGTERM)
    tunnel.communicate(timeout=30)


def _line(said: str, title: str) -> str:
    found = re.search(rf"^{title} +(.+)$", said, flags=re.M)
    assert found, said
    return found[1]


def _answers(laptop: PC) -> bool:
    asked = "import socket; socket.create_connection(('127.0.0.1', 8265), 1)"
    return laptop.run(PYTHON, "-c", asked, check=False).returncode == 0
