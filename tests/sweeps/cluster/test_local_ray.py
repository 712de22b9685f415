"""A Ray on this PC that starts while a sweep is planned: the model of most of these sweeps waits for it."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from sweeps.cluster import local_ray
from sweeps.cluster.local_ray import LocalRay
from sweeps.common.errors import RayNotStarted
from sweeps.config.sweep_config import SweepConfig
from tests.conftest import ROOT
from tests.support.lab import wait_until

MODEL = """
import os, sys, time
import psutil
from tests.faulty.toy import METRIC, MODE, Params, {imported}

def ray_is_there():
    return any(each.name() == "raylet" for each in psutil.Process().children(recursive=True))

if sys.argv[0].endswith("late.py"):  # the process of the sweep
    until = time.monotonic() + 60
    while not ray_is_there() and time.monotonic() < until:
        time.sleep(0.05)
    print("Ray is there:", ray_is_there(), flush=True)
print("PYTHONPATH", os.environ["PYTHONPATH"], flush=True)
{more}
"""
BOTH = "build_data, build_model"
PRODUCTS = """
import numpy as np
until = time.monotonic() + 3
while time.monotonic() < until:
    np.ones((600, 600)) @ np.ones((600, 600))
"""
PATIENCE_S = 60.0


def begin(folder: Path, imported: str = BOTH, more: str = "", **variables: str) -> subprocess.Popen[str]:
    (folder / "late.py").write_text(MODEL.format(imported=imported, more=more))
    flags = {
        "trainable": "late", "search-space": "tests.faulty.slopes", "searcher": "random", "num-trials": "1",
        "max-epochs": "1", "name": "s", "min-free-gb": "0",
    }  # fmt: skip
    words = [word for name, value in flags.items() for word in (f"--{name}", value)]
    return subprocess.Popen(
        [sys.executable, "-m", "sweeps.run", *words, "--no-ray-dashboard", "--no-preflight"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TOY_ATTEMPTS": str(folder), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    flags = ["--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes", "--num-trials", "1"]
    return subprocess.run(
        [sys.executable, "-P", "-m", "sweeps", "run", *flags, "--max-epochs", "1", "--name", "s", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TOY_ATTEMPTS": str(folder), **variables},
        capture_output=True,
        text=True,
    )


def below(program: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(program.pid).children(recursive=True)


def all_end(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, PATIENCE_S)[1]


def test_ray_starts_while_a_long_plan_is_made(tmp_path: Path) -> None:
    program = begin(tmp_path)
    assert program.stdout is not None
    said = ""
    while not said.endswith("Best       trial 0"):
        said += program.stdout.read(1)
        assert program.poll() is None, said
    started = below(program)
    assert any("gcs_server" in each.name() for each in started)
    program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0
    assert [each for each in started if each.is_running()] == [], "not even one that nobody waits for"
    assert said.index("Ray is there: True") < said.index("Starting Ray ...")
    assert said.index("Starting Ray ...") < said.index("Best       trial 0")
    log = (tmp_path / "results" / "s" / "logs" / "trial_0000.log").read_text()
    assert f"PYTHONPATH {ROOT}" in log.splitlines(), "what a trial starts is to find what it found before"


@pytest.mark.slow
def test_a_model_that_computes_while_ray_starts_goes_on(tmp_path: Path) -> None:
    """Were Ray's programs forked from this process, its product would wait for ever."""
    program = begin(tmp_path, more=PRODUCTS, RAY_LOG_TO_STDERR="1")
    said, _ = program.communicate(timeout=PATIENCE_S * 2)
    assert program.returncode == 0, said


def test_a_mistake_that_a_long_plan_shows_ends_the_ray_that_has_started(tmp_path: Path) -> None:
    program = begin(tmp_path, imported="build_model", more="time.sleep(1.0)")
    assert program.stdout is not None
    while "Ray is there: True" not in program.stdout.readline():
        assert program.poll() is None
    started = below(program)
    assert any("gcs_server" in each.name() for each in started)
    said, _ = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 2
    assert "build_data" in said
    assert "Traceback" not in said
    assert all_end(started)
    assert not (tmp_path / "results" / "s").exists()


@pytest.mark.parametrize(
    ("sent", "status"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGKILL, -signal.SIGKILL, marks=pytest.mark.slow)],
)
def test_a_signal_while_both_go_on_ends_all(sent: signal.Signals, status: int, tmp_path: Path) -> None:
    program = begin(tmp_path, more=f"time.sleep({PATIENCE_S})")
    wait_until(lambda: any("gcs_server" in each.name() for each in below(program)), "Ray starts")
    started = below(program)
    program.send_signal(sent)
    said, _ = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == status, said
    assert "Traceback" not in said
    assert all_end(started)


@pytest.mark.parametrize("flags", [{"dry_run": True}, {"address": "10.0.0.1:6379"}])
def test_none_starts_that_is_not_wanted(flags: dict[str, Any]) -> None:
    with LocalRay(SweepConfig.of(**flags), None) as local:
        assert local._head is None


@pytest.mark.parametrize("what", ["nothing", "GPUs are hidden", "it has ended"])
def test_another_ray_starts_where_the_first_one_is_of_no_use(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray counts the GPUs when it starts. The model has been imported since."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with LocalRay(SweepConfig(), None) as local:
        first = local._head
        assert first is not None
        if what == "GPUs are hidden":
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
        elif what == "it has ended":
            first.kill()
            first.wait()
        local._settle()
        assert (local._head is first) is (what == "nothing")
        assert (first.poll() is None) is (what == "nothing")


def test_what_ray_has_moved_to_the_disk_is_removed(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "ray_spilled_objects_1f" / "a").mkdir(parents=True)
    with LocalRay(SweepConfig.of(dry_run=True), None) as local:
        local._folder = tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_a_process_that_ends_without_an_answer_is_told_where_ray_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("exit 3")
    why = r"does not start on this PC \(its process ended with status 3\)"
    with LocalRay(SweepConfig(), tmp_path / "python") as local, pytest.raises(RayNotStarted, match=why):
        local.join()


def test_ray_starts_where_the_path_of_temporary_files_is_too_long_for_its_sockets(tmp_path: Path) -> None:
    (long := tmp_path / "a_scratch_folder_of_a_job").mkdir()
    done = run(tmp_path, TMPDIR=str(long))  # with Ray's dashboard, which has sockets of its own
    assert (done.returncode, done.stderr) == (0, "")


def test_files_of_the_project_that_hide_modules_of_libraries_are_no_hindrance(tmp_path: Path) -> None:
    """Ray imports these while it starts, PyTorch two of them, and Tune the first by W&B."""
    for name in ("click", "resource", "platform", "types", "queue", "nt"):
        (tmp_path / f"{name}.py").write_text("VALUE = 1")
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_that_hides_a_module_from_the_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "lightning.py").write_text("VALUE = 1")
    done = run(tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --trainable tests.faulty.toy: can't be imported: ")
    assert done.stderr.endswith("lightning.py has the name of a module that libraries import, and Python "
                                "imports only one of them by the name lightning: rename yours\n")  # fmt: skip


@pytest.mark.parametrize("opens", [True, False], ids=["here", "a kernel without such descriptors"])
def test_a_signal_from_outside_does_not_end_a_sweep(opens: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(pid: int) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not opens:
        monkeypatch.setattr(os, "pidfd_open", refuses)
    with LocalRay(SweepConfig.of(dry_run=True), None) as local:
        local._needed = {"raylet": os.getppid()}
        with local.needed(lambda: None):
            signal.raise_signal(local_ray.LOST_SIGNAL)
        assert local.lost == ""


def test_the_error_of_the_process_that_starts_ray_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "head.py").write_text("raise RuntimeError('a library of Ray is broken')")
    monkeypatch.setattr(local_ray, "HEAD", tmp_path / "head.py")
    ended = "its process ended with status 1: RuntimeError: a library of Ray is broken"
    with LocalRay(SweepConfig(), None) as local, pytest.raises(RayNotStarted, match=re.escape(ended)):
        local.join()
