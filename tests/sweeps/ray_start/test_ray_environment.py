"""Who has not the token gets in nowhere, at real Rays with their own ports; what we say to who tries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from sweeps.common.errors import UserError
from sweeps.ray_start import ray_environment
from tests.conftest import ROOT
from tests.support.heads import OPEN, Head, head, with_token, write_token

INIT = "import ray; ray.init({address!r}, logging_level='ERROR', log_to_driver=False); print('in')"
JOBS = (
    "from ray.job_submission import JobSubmissionClient as Jobs; print('in', Jobs({address!r}).list_jobs())"
)
CALLS = (
    *("NodeInfoGcsService/CheckAlive", "InternalKVGcsService/InternalKVGet", "JobInfoGcsService/AddJob"),
    *("NodeManagerService/GetNodeStats", "NodeManagerService/ShutdownRaylet", "ObjectManagerService/Pull"),
    *("CoreWorkerService/PushTask", "CoreWorkerService/Exit", "ReporterService/CpuProfiling"),
    *("RayletDriver/Init", "RayletDriver/KVGet"),
)
"""One or more of each service of Ray 2.60 that listens."""
TOKEN_VARIABLES = (ray_environment.AUTH_MODE, ray_environment.TOKEN, ray_environment.TOKEN_PATH)
REFUSED = "UNAUTHENTICATED"


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_token(tmp_path_factory.mktemp("token") / "auth_token")


@pytest.fixture(scope="module")
def guarded(token: Path) -> Iterator[Head]:
    with head(with_token(token), with_doors=True) as started:
        yield started


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process is of somebody who has no token; the home."""
    for name in TOKEN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def wrong(tmp_path: Path) -> dict[str, str]:
    return with_token(write_token(tmp_path / "wrong"))


@pytest.mark.slow
def test_the_token_opens_what_is_closed_without(
    guarded: Head, token: Path, stranger: Path, wrong: dict[str, str]
) -> None:
    jobs = JOBS.format(address=f"http://{guarded.dashboard}")
    assert _python(jobs, with_token(token)).startswith("in")
    for settings in ({}, OPEN, wrong):
        assert re.search("no authentication token|token is invalid", _python(jobs, settings))
    assert _get(f"http://{guarded.dashboard}/api/jobs/", token.read_text()) == 200
    assert _get(f"http://{guarded.dashboard}/api/jobs/", None) == 401
    assert _get(f"http://{guarded.dashboard}/api/jobs/", "wrong") == 403


@pytest.mark.slow
def test_no_call_is_answered_without_the_token(guarded: Head, token: Path) -> None:
    answers = _calls(guarded.address, None)
    assert answers["NodeInfoGcsService/CheckAlive"] == REFUSED
    assert set(answers.values()) == {REFUSED, "UNIMPLEMENTED"}
    assert _calls(guarded.address, "wrong") == answers
    assert _calls(guarded.address, token.read_text())["NodeInfoGcsService/CheckAlive"] == "OK"
    client = _calls(guarded.client, None)
    assert (client["RayletDriver/Init"], client["RayletDriver/KVGet"]) == (REFUSED, REFUSED)


@pytest.mark.long
def test_a_program_of_rays_gets_in_by_no_port(
    guarded: Head, token: Path, stranger: Path, wrong: dict[str, str]
) -> None:
    """Through GCS and Ray Client; each gives up after 20 to 30 s."""
    addresses = (guarded.address, f"ray://{guarded.client}")
    for address in addresses:
        assert _python(INIT.format(address=address), with_token(token)).strip() == "in"
    tries = [
        _begin(INIT.format(address=address), settings)
        for address in addresses
        for settings in ({}, OPEN, wrong)
    ]
    for process in tries:
        said, _ = process.communicate(timeout=180)
        assert process.returncode != 0
        assert "ConnectionError" in said
        assert "in\n" not in said.splitlines()


@pytest.mark.slow
def test_a_ray_that_is_started_here_lets_nobody_in(stranger: Path) -> None:
    """Its ports are on all networks; only the dashboard's is on loopback alone."""
    if shutil.which("ss") is None:
        pytest.skip("listing ports needs ss")
    code = """
import os, subprocess, sys, time
from sweeps.ray_start import ray_environment
ray_environment.settle_token(None)
import ray
context = ray.init("local", num_cpus=1, log_to_driver=False, logging_level="ERROR")
ray.get(ray.remote(lambda: 1).remote())
print(context.dashboard_url, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            assert started.stdout is not None
            dashboard = started.stdout.readline().strip()
            assert _get(f"http://{dashboard}/api/jobs/", None) == 401
            answers = {address: _calls(address, None) for address in _listening(started.pid)}
            pages = [address for address, said in answers.items() if "UNIMPLEMENTED" not in said.values()]
            written = [_get(f"http://{address}/get_or_create_runtime_env", None, b"{}") for address in pages]
        finally:
            started.communicate(timeout=60)
    assert dashboard.startswith("127.0.0.1:")
    assert not [address for address, said in answers.items() if "OK" in said.values()]
    assert not [status for status in written if status < 400]
    services = {call.partition("/")[0] for said in answers.values() for call in said if said[call] == REFUSED}
    assert {"NodeInfoGcsService", "NodeManagerService", "CoreWorkerService"} <= services
    file = stranger / ".ray" / "auth_token"
    assert file.stat().st_mode & 0o077 == 0
    assert re.fullmatch("[0-9a-f]{64}", file.read_text())


@pytest.mark.slow
def test_the_mode_is_that_of_the_cluster(guarded: Head, token: Path, stranger: Path) -> None:
    home = stranger / ".ray" / "auth_token"
    home.parent.mkdir()
    home.write_text(token.read_text())
    ray_environment.settle_token(guarded.address)
    assert ray_environment.requires_token()
    assert ray_environment.token_place() == "~/.ray/auth_token"


@pytest.mark.slow
def test_who_has_no_token_is_told_where_to_get_it(guarded: Head, stranger: Path) -> None:
    with pytest.raises(UserError, match=r"requires a token, and none is sent. Copy ~/.ray/auth_token from"):
        ray_environment.settle_token(guarded.address)


@pytest.mark.slow
def test_a_mode_that_does_not_fit_is_named(
    guarded: Head, token: Path, stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ray_environment.TOKEN_PATH, str(token))
    monkeypatch.setenv(ray_environment.AUTH_MODE, "disabled")
    with pytest.raises(UserError, match=r"none is sent. Unset RAY_AUTH_MODE, which is 'disabled' here"):
        ray_environment.settle_token(guarded.address)


@pytest.mark.slow
def test_a_sweep_with_another_token_ends_in_a_line(
    guarded: Head, stranger: Path, wrong: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "sweeps.run", "--trainable", "digits_mlp", "--address", guarded.address]
    done = subprocess.run(
        [*command, "--results-dir", str(stranger / "results")],
        cwd=ROOT,
        env={**os.environ, **wrong},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    path = wrong[ray_environment.TOKEN_PATH]
    assert done.stderr.startswith(
        f"error: --address {guarded.address}: the cluster does not accept the token in {path}"
    )
    assert len(done.stderr.splitlines()) == 1
    assert not (stranger / "results").exists()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["", ray_environment.TOKEN_MODE])
def test_a_look_without_a_token_ends_in_a_line(guarded: Head, stranger: Path, mode: str) -> None:
    queue = [sys.executable, "-m", "sweeps.queue", "--address", guarded.address]
    settings = {ray_environment.AUTH_MODE: mode} if mode else {}
    done = subprocess.run(
        queue, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: --address {guarded.address}: the cluster requires a token, and")
    assert len(done.stderr.splitlines()) == 1


def test_who_has_no_home_folder_is_told_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs with `--user`, whose HOME is `/`."""
    (tmp_path / "home").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(ray_environment.AUTH_MODE, ray_environment.TOKEN_MODE)
    for name in (ray_environment.TOKEN, ray_environment.TOKEN_PATH):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match=r"home/.ray/auth_token: .* can't be written .* Set HOME to"):
        ray_environment.settle_token(None)


def test_who_turns_it_off_here_keeps_it_off(stranger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ray_environment.AUTH_MODE, "disabled")
    ray_environment.settle_token(None)
    assert not ray_environment.requires_token()
    assert not (stranger / ".ray").exists()


def _python(code: str, settings: dict[str, str]) -> str:
    said, _ = _begin(code, settings).communicate(timeout=180)
    return said


def _begin(code: str, settings: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _get(url: str, token: str | None, body: bytes | None = None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _calls(address: str, token: str | None) -> dict[str, str]:
    """What a port answers to each of CALLS, empty as they are."""
    headers = [] if token is None else [("authorization", f"Bearer {token}")]
    answers = {}
    with grpc.insecure_channel(address) as channel:
        for call in CALLS:
            try:
                channel.unary_unary(f"/ray.rpc.{call}")(b"", timeout=10, metadata=headers)
                answers[call] = "OK"
            except grpc.RpcError as error:
                answers[call] = error.code().name
    return answers


def _listening(parent: int) -> set[str]:
    """Addresses, beyond loopback, of a process and of all that it started."""
    family, found = {parent}, -1
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [(int(pid), int(above)) for pid, above in map(str.split, listed.splitlines())]
    while found != len(family):
        found = len(family)
        family |= {pid for pid, above in pairs if above in family}
    lines = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout.splitlines()
    return {
        re.sub(r"^(\*|0\.0\.0\.0|\[::\]):", "127.0.0.1:", local)
        for line in lines
        if not (local := line.split()[3]).startswith(("127.", "[::1]"))
        and family & {int(pid) for pid in re.findall(r"pid=(\d+)", line)}
    }


@pytest.mark.slow
def test_a_program_that_has_imported_ray_without_the_mode_is_told_so(tmp_path: Path) -> None:
    code = "import sys, ray\nfrom sweeps.run import main\nsys.exit(main(sys.argv[1:]))"
    flags = ("--trainable", "digits_mlp", "--num-trials", "1", "--results-dir", str(tmp_path / "results"))
    environment = {name: value for name, value in os.environ.items() if name not in TOKEN_VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", code, *flags], cwd=ROOT, env={**environment, "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        "error: RAY_AUTH_MODE must be set before Ray is imported, and this program has imported Ray. "
        "Start it with RAY_AUTH_MODE=token in its environment\n"
    )
    assert not any(tmp_path.iterdir())
