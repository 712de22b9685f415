"""The Ray of a user on a PC, as its folder tells: who uses it, and what is left there is not believed."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps import down
from sweeps.common.errors import UserError
from sweeps.ray_start import ray_folder as ray_folders_module
from sweeps.ray_start import shared_ray
from sweeps.ray_start.ray_folder import (
    RayFolder,
    State,
    User,
    ray_folder_here,
    services_of_systemd,
    state_of,
    versions,
)
from sweeps.ray_start.shared_ray import SharedRay
from tests.conftest import ROOT

OF_ONE_SERVICE = "/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.service"


@pytest.fixture
def ray_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RayFolder:
    """That of this process, for one test."""
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")
    monkeypatch.setattr(ray_folders_module.ray_connection, "folder_for_sockets", lambda: tmp_path)
    return RayFolder()


def here() -> State:
    """As if this process were the holder, and its own children."""
    return state_of("127.0.0.1:1", {"raylet": os.getpid(), "gcs_server": os.getpid()}, "")


def test_one_is_found_as_long_as_its_processes_are_there(ray_folder: RayFolder) -> None:
    ray_folder.write(here())
    assert ray_folder.state() == here()
    with subprocess.Popen(["sleep", "60"]) as raylet:
        ray_folder.write(other := state_of("127.0.0.1:1", {"raylet": raylet.pid}, ""))
        assert ray_folder.state() == other
        raylet.kill()
        raylet.wait()
        assert ray_folder.state() is None


def test_what_is_left_from_before_a_power_cut_is_not_believed(ray_folder: RayFolder) -> None:
    """Another process may have the id, at any time of any clock."""
    pid, start = here().processes["holder"]
    ended = subprocess.Popen(["true"])
    ended.wait()
    for left in (
        replace(here(), boot="00000000-0000-0000-0000-000000000000"),
        replace(here(), processes={"holder": [pid, start + 1]}),
        replace(here(), processes={"holder": [ended.pid, start]}),
    ):
        ray_folder.write(left)
        assert ray_folder.state() is None
    (ray_folder.folder / "ray.json").write_text('{"address": "127.0')
    assert ray_folder.state() is None


def test_what_another_version_writes_is_refused_and_not_ignored(ray_folder: RayFolder) -> None:
    ray_folder.write(here())
    file = ray_folder.folder / "ray.json"
    said = json.loads(file.read_text())
    for words in ({**said, "news": 1}, {name: said[name] for name in ("boot", "processes")}):
        file.write_text(json.dumps(words))
        with pytest.raises(UserError, match="the Ray of this PC runs with sweeps unknown"):
            SharedRay("second", "", dashboard=False)


USES = """
import sys, time
from pathlib import Path
from sweeps.ray_start.ray_folder import RayFolder, User
import os
RayFolder(Path(sys.argv[1])).add_user(User(pid=os.getpid(), name="first", folder="/results/first"))
print("uses", flush=True)
time.sleep(600)
"""


def test_a_user_that_is_killed_uses_it_no_more(ray_folder: RayFolder) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", USES, str(ray_folder.folder)], stdout=subprocess.PIPE, cwd=ROOT
    ) as user:
        assert user.stdout is not None
        user.stdout.readline()
        ray_folder.add_user(User(pid=os.getpid(), name="second"))
        assert [each.name for each in ray_folder.users()] == ["first", "second"]
        words = f"first (process {user.pid}, in /results/first)"
        assert ray_folder.users()[0].words == words
        user.send_signal(signal.SIGKILL)
        user.wait()
        assert [each.name for each in ray_folder.users()] == ["second"]


@pytest.mark.parametrize("name", ["sweeps", "Ray", "Python"])
def test_another_version_is_refused_with_what_to_do(name: str, ray_folder: RayFolder) -> None:
    theirs = {**versions(), name: "0.0.1"}
    ray_folder.write(replace(here(), versions=theirs))
    mine = versions()[name]
    runs = f"the Ray of this PC runs with {name} 0.0.1, and this is {name} {mine}"
    with pytest.raises(UserError, match=f"{runs}. Type .*down, or set RAY_TMPDIR to another folder"):
        SharedRay("second", "", dashboard=False)
    ray_folder.add_user(User(pid=os.getpid(), name="first"))
    with pytest.raises(UserError, match=r"used by first \(process \d+\): wait until it ends, or set RAY_TMP"):
        SharedRay("second", "", dashboard=False)


@pytest.mark.parametrize(
    ("variable", "value"), [("CUDA_VISIBLE_DEVICES", "1"), ("SLURM_JOB_ID", "17"), ("HOME", "/nowhere")]
)
def test_a_job_and_other_gpus_have_a_ray_of_their_own(
    variable: str, value: str, ray_folder: RayFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_folders_module.gpus, "are_there", lambda: True)
    assert RayFolder().folder == ray_folder.folder
    monkeypatch.setenv(variable, value)
    assert RayFolder().folder != ray_folder.folder


def test_pcs_with_one_folder_of_temporary_files_have_a_ray_each(
    ray_folder: RayFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "node", lambda: "named-by-dhcp")  # since the one of `sweeps up` has started
    assert RayFolder().folder == ray_folder.folder
    monkeypatch.setattr(ray_folders_module, "boot_id", lambda: "of another")
    assert RayFolder().folder != ray_folder.folder


def test_without_a_gpu_a_choice_of_gpus_shares_the_cores(
    ray_folder: RayFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_folders_module.gpus, "are_there", lambda: False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert RayFolder().folder == ray_folder.folder


@pytest.mark.parametrize(
    ("cgroups", "services"),
    [
        ("0::/user.slice/user-1000.slice/session-3.scope\n", []),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-1.scope\n", []),
        (f"4:memory:/x.service\n0::{OF_ONE_SERVICE}\n", [OF_ONE_SERVICE]),
        (f"5:cpu:/\n1:name=systemd:{OF_ONE_SERVICE}\n0::{OF_ONE_SERVICE}\n", [OF_ONE_SERVICE]),
    ],
)
def test_a_service_of_systemd_is_told_from_a_terminal(cgroups: str, services: list[str]) -> None:
    assert services_of_systemd(cgroups) == services


def test_a_service_has_a_ray_of_its_own_unless_one_is_up(
    ray_folder: RayFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_folders_module, "services_of_systemd", lambda _: [OF_ONE_SERVICE])
    assert ray_folder_here().folder != ray_folder.folder
    ray_folder.write(here())
    assert ray_folder_here().folder == ray_folder.folder


def test_the_end_of_one_names_those_of_other_choices(
    ray_folder: RayFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ray_folder.write(here())
    ray_folder.add_user(User(pid=os.getpid(), name="first"))
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert down.down(waits=False) == 0
    said = capsys.readouterr().out
    assert f"is used by first (process {os.getpid()})" in said
    assert f"kill {os.getpid()}\n" in said


def test_the_folder_of_another_user_is_refused(
    ray_folder: RayFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"sweeps-{os.getuid()}").rename(tmp_path / "sweeps-1")
    monkeypatch.setattr(os, "getuid", lambda: 1)
    with pytest.raises(UserError, match="Set RAY_TMPDIR to a folder of your own"):
        RayFolder()


@pytest.mark.slow
def test_one_that_begins_for_nobody_ends(ray_folder: RayFolder) -> None:
    """As after Ctrl-C."""
    number, _ = ray_folder.add_user(User(pid=os.getpid(), name="first"))
    with ray_folder.locked() as lock:
        assert lock is not None
        holder, answer = shared_ray.start_holder(ray_folder, lock, dashboard=False)
    os.close(number)
    assert holder.wait(60) == 0
    assert os.read(answer, 100) == b"ready"
    os.close(answer)
    assert ray_folder.state() is None
    with ray_folder.locked(wait=False) as again:
        assert again is not None
