"""How a Ray is started on this PC, and why one can't be joined, before Ray itself would wait for minutes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from sweeps.common.errors import UserError
from sweeps.ray_start import ray_connection, ray_environment
from tests import ROOT

PATIENCE_S = 60.0


def test_a_port_that_answers_is_no_mistake_and_one_that_does_not_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        ray_connection.refuse_silent(address)
    with pytest.raises(UserError, match=f"--address {address}: no Ray cluster answers there .*refused"):
        ray_connection.refuse_silent(address)


def test_a_name_that_can_be_none_is_named_as_well() -> None:
    with pytest.raises(UserError, match=r"--address head\.\.lan:6379: no Ray cluster answers there"):
        ray_connection.refuse_silent("head..lan:6379")


@pytest.mark.parametrize(
    ("address", "is_refused"), [("auto", False), ("pc1:6379", False), ("pc1:6380", True)]
)
def test_a_ray_of_another_cluster_does_not_make_this_pc_part_of_one(
    address: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["/env/raylet", "--raylet_socket_name=/tmp/ray/raylet", "--gcs-address=10.0.0.1:6379"]
    there = [{"name": "raylet", "cmdline": words}, {"name": "raylet", "cmdline": None}]
    monkeypatch.setattr(psutil, "process_iter", lambda _: [SimpleNamespace(info=each) for each in there])
    with pytest.raises(UserError, match="no Ray of it runs here") if is_refused else nullcontext():
        ray_connection.refuse_outside(address)


@pytest.mark.parametrize(
    ("heads", "noted", "named", "is_refused"),
    [
        (["10.0.0.1:6379", "10.0.0.2:41234"], "", "", True),
        (["10.0.0.1:6379", "10.0.0.2:41234"], "10.0.0.1:6379", "", False),
        (["10.0.0.1:6379", "10.0.0.2:41234"], "", "10.0.0.1:6379", False),
        (["10.0.0.1:6379", "10.0.0.2:41234"], "", "auto", True),
        (["10.0.0.1:6379", "10.0.0.1:6379"], "", "", False),
        ([], "", "", False),
    ],
)
def test_auto_is_refused_where_it_may_be_several_rays(
    heads: list[str],
    noted: str,
    named: str,
    is_refused: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That of `sweeps up` beside that of ray_cluster.yaml, which has a folder of its own: Ray takes any."""
    there = [{"name": "raylet", "cmdline": ["/env/raylet", f"--gcs-address={head}"]} for head in heads]
    monkeypatch.setattr(psutil, "process_iter", lambda _: [SimpleNamespace(info=each) for each in there])
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setenv("RAY_ADDRESS", named)
    if noted:
        (tmp_path / "ray").mkdir()
        (tmp_path / "ray" / "ray_current_cluster").write_text(noted)
    said = r"^--address auto: 2 Rays run on this PC, at 10\.0\.0\.1:6379 and 10\.0\.0\.2:41234: give that"
    with pytest.raises(UserError, match=said) if is_refused else nullcontext():
        ray_connection.refuse_silent("auto")


@pytest.mark.parametrize("address", [None, "local", "ray://127.0.0.1:9", "127.0.0.1"])
def test_an_address_without_a_port_is_for_ray_to_try(address: str | None) -> None:
    ray_connection.refuse_silent(address)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionError("refused\nand more"), "no Ray cluster answers there (refused)"),
        (RuntimeError("it is gone"), "no Ray cluster answers there (it is gone)"),
        (PermissionError(13, "Permission denied"), "the code can't be sent ([Errno 13] Permission denied)"),
        (
            RuntimeError(
                "Version mismatch: The cluster was started with:\n    Ray: 2.60.0\nThis process was\n"
            ),
            "Version mismatch: The cluster was started with: Ray: 2.60.0 This process was. "
            "Type the command with the cluster's Python and Ray",
        ),
    ],
)
def test_the_network_the_versions_and_the_code_are_told_apart(error: Exception, words: str) -> None:
    assert ray_connection.why_not(error) == words


def test_a_name_in_the_command_that_is_no_utf_8_is_named() -> None:
    def init(**_: object) -> None:
        os.fsdecode(b"sweeps run --results-dir caf\xe9").encode()

    config = SimpleNamespace(JobConfig=dict)
    ray = SimpleNamespace(init=init, shutdown=lambda: None, job_config=config)
    with pytest.raises(UserError, match=r"results-dir caf\\udce9': Ray takes names in UTF-8 alone"):
        ray_connection.join_here(ray, "127.0.0.1:1", "python")


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPS_TEST_OF_USER", "theirs")
    monkeypatch.delenv("SWEEPS_TEST_OF_OURS", raising=False)
    ray_environment.set_environment({"SWEEPS_TEST_OF_USER": "ours", "SWEEPS_TEST_OF_OURS": "ours"})
    assert (os.environ["SWEEPS_TEST_OF_USER"], os.environ["SWEEPS_TEST_OF_OURS"]) == ("theirs", "ours")
    monkeypatch.delenv("SWEEPS_TEST_OF_OURS")


def test_ctrl_c_does_not_leave_a_ray_half_shut_down() -> None:
    done = []

    class Ray:
        @staticmethod
        def shutdown() -> None:
            signal.raise_signal(signal.SIGINT)
            done.append("first half")
            signal.raise_signal(signal.SIGINT)
            done.append("second half")

    with pytest.raises(KeyboardInterrupt):
        ray_connection.shut_down(Ray)
    assert done == ["first half", "second half"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_ends_a_shutdown_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_connection, "SHUT_DOWN_S", 0.0)

    class Ray:
        @staticmethod
        def shutdown() -> None:
            signal.raise_signal(signal.SIGINT)
            pytest.fail("it went on")

    with pytest.raises(KeyboardInterrupt):
        ray_connection.shut_down(Ray)


@pytest.mark.slow
def test_a_ray_that_does_not_start_here_is_told_in_a_line(tmp_path: Path) -> None:
    flags = [
        "--no-baseline",
        "--trainable",
        "tests.faulty.toy",
        "--num-trials",
        "1",
        "--results-dir",
        str(tmp_path),
    ]
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        Path(temporary, "ray").touch()  # where Ray makes its folder
        done = subprocess.run(
            [sys.executable, "-m", "sweeps.run", *flags, "--search-space", "tests.faulty.slopes"],
            env={**os.environ, "RAY_TMPDIR": temporary}, cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 1
    _, resume, error = done.stderr.splitlines()
    assert "sweeps run --resume" in resume
    assert error.startswith("error: Ray does not start on this PC (")
    assert error.endswith(f"Ray's logs are in {temporary}/ray/session_latest/logs")


def test_a_signal_to_the_group_of_this_process_does_not_reach_rays_processes() -> None:
    def group_of_a_child() -> int:
        asks = [sys.executable, "-c", "import os; print(os.getpgrp())"]
        return int(subprocess.check_output(asks, preexec_fn=lambda: None))  # as Ray starts its processes

    with ray_connection.quietly():
        assert group_of_a_child() != os.getpgrp()
    assert group_of_a_child() == os.getpgrp()


LETS_GO = """
import threading, time, ray
from sweeps.ray_start import ray_connection

ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
held, has_begun, is_over = [ray.put(0) for _ in range(2000)], threading.Event(), threading.Event()

def make_garbage():  # which only the collector removes, by itself and in this thread
    while held and not is_over.is_set():
        for _ in range(1000):
            one = []
            one.append(one)
        one.append(held.pop())
        has_begun.set()
        time.sleep(0.0005)

def shut_down_meanwhile(shut_down=ray.shutdown):  # not before: what is held lasts for a second
    thread.start()
    has_begun.wait()
    shut_down()

thread, ray.shutdown = threading.Thread(target=make_garbage), shut_down_meanwhile
ray_connection.shut_down(ray)
is_over.set()
thread.join()
print("goes on")
"""


@pytest.mark.slow
def test_a_thread_that_makes_objects_while_ray_is_shut_down_does_not_end_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", LETS_GO], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "goes on\n"), done.stderr


FORKED = """
import os, sys, tempfile, time
from sweeps.ray_start import ray_environment
from sweeps.ray_start import ray_connection, shared_ray
from sweeps.ray_start import ray_environment
from sweeps.trial import fork_server

ray_environment.set_environment()
ray_environment.settle_token(None)
os.environ["ONE"] = "1"
with fork_server.started() as python, shared_ray.SharedRay("s", python, dashboard=False) as here:
    import ray
    ray_connection.join_here(ray, here.joined().address, python)
    worker = ray.remote(lambda: ("torch" in sys.modules, os.environ.get("ONE"), os.environ.get("TMPDIR")))
    print(*ray.get(worker.remote()), tempfile.gettempdir(), flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("has_folder", [False, True], ids=["no_tmpdir", "tmpdir"])
def test_the_workers_of_a_ray_are_forks_and_all_end_with_a_driver_that_is_killed(
    has_folder: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each has a folder of temporary files: with an empty name Ray would write locks into the project."""
    variables = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    if has_folder:
        variables["TMPDIR"] = str(tmp_path_factory.getbasetemp())
    with subprocess.Popen(
        [sys.executable, "-c", FORKED], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=variables
    ) as driver:
        assert driver.stdout is not None
        is_fork, variable, folder, own_folder = driver.stdout.readline().split()
        assert (is_fork, variable, folder) == ("True", "1", own_folder)
        children = psutil.Process(driver.pid).children(recursive=True)
        started = [each for each in children if "Agent" not in each.name()]  # they look for the head for long
        assert "python" in [each.name() for each in started]  # the holder
        assert "gcs_server" in [each.name() for each in started]
        driver.kill()
        _, left = psutil.wait_procs(started, PATIENCE_S)
        assert left == []


@pytest.mark.parametrize("temporary", ["a_scratch_folder_of_a_batch_system", "missing", "", "/proc"])
def test_sockets_have_a_short_folder_that_can_be_written(
    temporary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_scratch_folder_of_a_batch_system").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path / temporary) if temporary else "")
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    found = ray_connection.folder_for_sockets()
    assert found in (Path("/tmp"), Path(f"/tmp/sweeps-{os.getuid()}"))
    if found != Path("/tmp"):
        assert (found.stat().st_uid, found.stat().st_mode & 0o777) == (os.getuid(), 0o700)


def test_a_folder_that_the_user_has_named_for_ray_is_used_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        assert ray_connection.folder_for_sockets() == Path(folder)
    monkeypatch.setenv("RAY_TMPDIR", "/proc")
    with pytest.raises(UserError, match=r"RAY_TMPDIR=/proc: no file can be written .* Set RAY_TMPDIR to"):
        ray_connection.folder_for_sockets()
    monkeypatch.setenv("RAY_TMPDIR", f"/tmp/{'x' * 40}")
    with pytest.raises(UserError, match=r"the path has 45 bytes, .* at most 32 bytes"):
        ray_connection.folder_for_sockets()
