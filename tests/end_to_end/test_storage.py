"""Whole sweeps whose checkpoints are behind a network: paused, killed, resumed; and what is refused first."""

from __future__ import annotations

import contextlib
import os
import shlex
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

from sweeps import sweep
from sweeps.common.errors import UserError
from sweeps.config import cli
from sweeps.config.sweep_folder import JOURNAL
from sweeps.plan.build import make_plan
from sweeps.plan.plan import Plan
from sweeps.record.record import Record
from tests.conftest import ROOT, TOY
from tests.support.killing import check_whole
from tests.support.servers import SSHServer, s3_server, sshd

TOY = (
    *(
        *TOY,
        "--no-ray-dashboard",
        "--no-preflight",
    ),
    *("--max-epochs", "9", "--checkpoint-epochs", "1", "--min-free-gb", "0"),
)


@pytest.fixture(params=["sftp", "s3"])
def stored(
    request: pytest.FixtureRequest, tmp_path: Path, environment: dict[str, str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """A storage of each kind, and the environment of a command that may use it."""
    if request.param == "sftp":
        with sshd(tmp_path / "sshd") as server:
            yield server.url, {**environment, "HOME": str(server.home)}
    else:
        with s3_server(tmp_path) as s3:
            yield s3.url, {**environment, **s3.environment}


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sweeps.run", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.long
def test_a_sweep_with_pauses_is_killed_and_resumed(
    stored: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    """BOHB pauses trials: each goes on from its checkpoint, mostly in another process."""
    url, environment = stored
    folder = tmp_path / "results" / "far"
    search = ("--scheduler", "bohb", "--searcher", "bohb", "--num-trials", "5", "--params", "epoch_s=0.2")
    begin = [*TOY, *search, "--storage", url, "--results-dir", str(folder.parent), "--name", folder.name]
    with (tmp_path / "killed").open("w") as output:
        driver = subprocess.Popen(
            [sys.executable, "-m", "sweeps.run", *begin],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    while not (folder / JOURNAL).is_file() or epochs(folder) < 12:
        assert driver.poll() is None, (tmp_path / "killed").read_text()
        time.sleep(0.05)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    before = {trial.number: dict(trial.epochs) for trial in Record.read(folder).trials}
    done = run(environment, "--resume", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "continues after epoch" in done.stdout
    assert f"storage    checkpoints in {url}/far" in done.stdout
    record = Record.read(folder)
    check_whole(record, 5, [3], max_epochs=9, brackets=True)
    for number, there in before.items():
        assert {epoch: record.trials[number].epochs[epoch] for epoch in there} == there
    assert not (folder / "checkpoints").exists(), "nothing of them is in the sweep's folder"
    assert not (folder / "tune").exists()
    assert (folder / "best" / "weights.pt").is_file()
    assert "Test       test_score" in done.stdout
    written = (folder / "sweep.yaml").read_text()
    assert f"storage: {url}" in written
    assert "testing-secret" not in written + (folder / JOURNAL).read_text() + done.stdout


def epochs(folder: Path) -> int:
    return sum(len(trial.epochs) for trial in Record.read(folder).trials)


def planned(server: SSHServer, results: Path) -> Plan:
    """A sweep whose checkpoints are to be on the server."""
    words = ("--storage", server.url, "--results-dir", str(results), "--name", "far")
    return make_plan(cli.parse([*TOY, *words]))


def test_a_storage_that_does_not_open_is_said_before_anything_starts(
    server: SSHServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(server.home))
    server.known_hosts.write_text("")
    with pytest.raises(UserError) as refused:
        sweep.run(planned(server, tmp_path / "results"), None)
    said = str(refused.value)
    assert said.startswith(f"--storage {server.url}: {os.uname().nodename} can't use this storage")
    assert f"the host key of [127.0.0.1]:{server.port} is not in known_hosts" in said
    assert not (tmp_path / "results" / "far").exists()


def test_a_name_that_has_checkpoints_there_is_not_taken_again(
    server: SSHServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(server.home))
    (server.root / "far" / "trial_0000").mkdir(parents=True)
    with pytest.raises(UserError) as refused:
        sweep.run(planned(server, tmp_path / "results"), None)
    said = f"--name far: {server.url}/far has checkpoints of 1 trial already"
    assert str(refused.value).startswith(said)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SSHServer]:
    with sshd(tmp_path / "sshd") as server:
        yield server


@contextlib.contextmanager
def two_pcs(environment: dict[str, str], not_seen: Path) -> Iterator[str]:
    """The address of a head that has no CPU, and of another PC that has them and does not see a folder."""
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # a socket's path must be short
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray = [str(Path(sys.executable).parent / "ray"), "start", "--block", "--node-ip-address=127.0.0.1"]
    head = [*ray, "--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false"]
    join = shlex.join([*ray, f"--address=127.0.0.1:{port}", "--num-cpus=2"])
    other = ["unshare", "--mount", "sh", "-ec", f"mount -t tmpfs tmpfs {not_seen}; exec {join}"]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for number, command in enumerate(([*head, f"--temp-dir={folder}"], other)):
            said = Path(folder) / f"said_{number}"
            with said.open("wb") as log:
                started.append(
                    subprocess.Popen(
                        command, env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
                    )
                )
            while "Ray runtime started" not in said.read_text():
                assert started[-1].poll() is None, said.read_text()
                time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        for process in reversed(started):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long
def test_a_pc_that_does_not_see_the_results_folder_works_from_the_storage_alone(
    server: SSHServer, environment: dict[str, str], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    results.mkdir()
    home = {**environment, "HOME": str(server.home), "PYTHONPATH": str(ROOT), "RAY_AUTH_MODE": "disabled"}
    home |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0"}
    more = ("--num-trials", "3", "--scheduler", "hyperband", "--results-dir", str(results))
    with two_pcs(home, not_seen=results) as address:
        refused = run(home, *TOY, *more, "--address", address, "--name", "near")
        done = run(home, *TOY, *more, "--address", address, "--name", "far", "--storage", server.url)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert "1 PC of 2 can't use this storage:" in refused.stderr
    assert "all PCs must see that folder; share it, or give --storage sftp://" in refused.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    record = Record.read(results / "far")
    assert {trial.status for trial in record.trials} <= {"finished", "pruned"}
    assert not any(trial.notices for trial in record.trials)
    assert (results / "far" / "best" / "weights.pt").is_file()
    assert "Test       test_score" in done.stdout
