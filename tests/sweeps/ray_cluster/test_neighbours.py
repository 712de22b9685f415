"""A sweep does not begin on GPUs that others use, unless it is to."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.common import gpus
from sweeps.common.errors import UserError
from sweeps.common.gpus import Card, GpuProcess
from sweeps.config import cli
from sweeps.ray_cluster import session
from sweeps.ray_cluster.places.shared_sweeps import this_user
from sweeps.ray_start.ray_folder import HOLDER, RayFolder, User, start_of, state_of
from tests.conftest import TOY, Command
from tests.sweeps.ray_cluster.test_gpus import FAKE, THREE, fake_nvml

NOTEBOOK = GpuProcess(4711, 9_100_000_000, user="1003", program="python", line=frozenset({4711, 1}))
USED = Card("RTX 3090", "580.65", 24_000_000_000, 9_400_000_000, 0, "GPU-a", (NOTEBOOK,))
FREE = Card("RTX 3090", "580.65", 24_000_000_000, 0, 1, "GPU-b")
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="another user's process is started by root")
SAID = "GPU 0 is used by user 1003 (pid 4711, python, 9.1 of 24 GB)"


@pytest.mark.parametrize(
    ("cards", "text"),
    [
        (
            [USED, FREE],
            f"{SAID}: --queue waits until it is free, --gpus 1 uses the other one, --beside runs beside it",
        ),
        ([USED], f"{SAID}: --queue waits until it is free, --beside runs beside it"),
    ],
)
def test_it_is_refused_in_a_line_that_says_what_to_do(cards: list[Card], text: str) -> None:
    with pytest.raises(UserError) as told:
        session.refuse_beside(cards)
    assert str(told.value) == text


def test_ones_own_are_no_neighbours() -> None:
    session.refuse_beside([FREE])
    session.refuse_beside([USED], own=[4711])


def test_where_processes_cant_be_told_apart_a_second_sweep_of_ones_own_begins() -> None:
    hidden = Card("A30", "580.65", 24_000_000_000, 9_400_000_000, shows_processes=False)
    assert gpus.lines([hidden]) == ["GPU 0 is used by programs that can't be seen from here (9.4 of 24 GB)"]
    assert gpus.lines([hidden], own=[os.getpid()]) == []


@AS_ROOT
def test_the_ray_of_another_user_is_told_of() -> None:
    named = ["ray::SweepTrial.train()", "60"]
    with subprocess.Popen(named, executable="/bin/sleep", user=1003) as other:
        line = session.trials_of_others()
        other.kill()
    assert line == "beside     Ray of other users runs on this PC, too: 1003 (1 process)"


def test_a_user_whom_the_system_does_not_know_is_named_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs with `--user`."""

    def knows_nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", knows_nobody)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    assert this_user() == str(os.getuid())
    assert str(os.getuid()) not in session.trials_of_others()


@AS_ROOT
@pytest.mark.slow
def test_nothing_is_started_beside_others(
    sweep: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "gpus").write_text(THREE)
    environment |= {
        "GPUS": str(tmp_path / "gpus"),
        "GPU_PROCESSES": str(tmp_path / "processes"),
        "PYTHONPATH": str(shutil.copytree(FAKE, tmp_path / "nvml")),  # outside the project, else it is last
    }
    words = (*TOY, "--no-ray-dashboard", "--num-trials", "1", "--name", "s", "--results-dir", str(tmp_path))
    with subprocess.Popen(["sleep", "600"], user=1003) as other:
        (tmp_path / "processes").write_text(f"1, C, {other.pid}, 8700\n")
        refused = sweep(*words)
        other.kill()
    said = f"GPU 1 is used by user 1003 (pid {other.pid}, sleep, 9.12 of 25.8 GB)"
    assert refused.returncode == 2
    assert f"{said}: --queue waits until it is free, --gpus 2,0 uses the others, --beside" in refused.stderr
    assert not (tmp_path / "s").exists()


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the processes on the THREE GPUs that this process sees."""
    (tmp_path / "gpus").write_text(THREE)
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    monkeypatch.setenv("GPUS", str(tmp_path / "gpus"))
    monkeypatch.setenv("GPU_PROCESSES", str(tmp_path / "processes"))
    return tmp_path / "processes"


@AS_ROOT
def test_chosen_gpus_that_others_use_are_refused_as_those_that_are_not_there(
    processes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (gpus.VISIBLE, gpus.ORDER):
        monkeypatch.setenv(name, "")  # so that what --gpus sets ends with the test
        monkeypatch.delenv(name)
    with pytest.raises(UserError, match="--gpus 7: there is no such GPU"):
        cli.parse(["--gpus", "7"])
    with pytest.raises(UserError, match="--gpus 0 can't be combined with --address"):
        cli.parse(["--gpus", "0", "--address", "10.0.0.1:6379"])
    with subprocess.Popen(["sleep", "60"], user=1003) as other:
        processes.write_text(f"1, C, {other.pid}, 8700\n")
        with pytest.raises(UserError) as told:
            session.check_this_pc(cli.parse(["--gpus", "1"]), ())
        other.kill()
    said = f"GPU 1 is used by user 1003 (pid {other.pid}, sleep, 9.12 of 25.8 GB)"
    assert str(told.value) == f"{said}: --queue waits until it is free, --beside runs beside it"


@AS_ROOT
def test_a_sweep_without_gpus_and_one_beside_others_begin(processes: Path) -> None:
    with subprocess.Popen(["sleep", "60"], user=1003) as other:
        processes.write_text(f"0, C, {other.pid}, 1000\n")
        assert session.gpus_of(cli.parse(["--gpus-per-trial", "0"])) == []
        assert len(session.gpus_of(cli.parse([]))) == 3
        with pytest.raises(UserError, match="GPU 0 is used by user 1003"):
            session.check_this_pc(cli.parse([]), ())
        session.check_this_pc(cli.parse(["--beside"]), ())
        other.kill()


@pytest.mark.parametrize(
    ("theirs", "how"),
    [
        ({}, "without --gpus, and with CUDA_VISIBLE_DEVICES unset"),
        (
            {"CUDA_VISIBLE_DEVICES": "1,2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
            "with --gpus 1,2, choose others (--gpus 0)",
        ),
    ],
)
def test_two_rays_of_one_user_have_no_gpu_in_common(
    theirs: dict[str, str], how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gpus").write_text(THREE)
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    with monkeypatch.context() as surroundings:
        for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
            surroundings.delenv(name, raising=False)
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a short path, for Ray's sockets
            surroundings.setenv("RAY_TMPDIR", folder)
            surroundings.setenv("GPUS", str(tmp_path / "gpus"))
            one = RayFolder()
            other = RayFolder(one.folder.with_name("ray-of-another-choice"))
            config = cli.parse([])
            with subprocess.Popen(["sleep", "60"], env={**os.environ, **theirs}) as holder:
                state = state_of("127.0.0.1:1", {}, "")
                started = start_of(holder.pid)
                other.write(replace(state, processes={HOLDER: [holder.pid, started]}))
                session.refuse_overlap(config, one)  # no sweep uses it
                number, _ = other.add_user(User(pid=1, name="first"))
                with pytest.raises(UserError) as told:
                    session.refuse_overlap(config, one)
                session.refuse_overlap(config, other)
                session.refuse_overlap(cli.parse(["--beside"]), one)
                os.close(number)
                holder.kill()
    assert "first (process 1) may use it, too, by another choice of GPUs" in str(told.value)
    assert f"To share its GPUs, type the command {how}" in str(told.value)
