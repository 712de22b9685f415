"""The faults of a PC, from what its probe printed."""

from __future__ import annotations

import errno
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from sweeps.pcs import check, probe
from sweeps.pcs.cluster_file import Answer, ClusterFile

FILE = ClusterFile(Path("my_cluster.yaml"), ("pc0", "pc1"), "me", None, "/tmp/ray", {})
HERE = {"python": "3.11.7", "torch": "2.13.0+cpu"}
SOUND: dict[str, Any] = {
    "versions": {"python": "3.11.7", "torch": "2.13.0+cu130"},
    "gpu_fault": "",
    "disks": {"~": 50e9},
    "memory": 8e9,
    "of_ray": [],
    "taken": [],
    "storage": "",
}


def faults(skew_s: float = 0.0, **more: Any) -> list[tuple[str, str]]:
    found = check.faults_of(FILE, "pc1", {**SOUND, **more}, HERE, skew_s)
    return [(fault.part, fault.reason) for fault in found]


def test_a_pc_that_is_sound_has_none() -> None:
    """Another build of one release, and a Ray that runs, are none."""
    assert faults() == []
    assert faults(of_ray=[6380]) == []


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ({"versions": {"python": "3.11.2", "torch": "2.13.0"}}, ("packages", "python 3.11.2, here 3.11.7")),
        ({"gpu_fault": "no driver"}, ("gpu", "no driver")),
        ({"disks": {"~": 50e9, "/tmp": 1e9}}, ("disk", "1 GB free at /tmp, 5 GB are needed")),
        ({"memory": 1e9}, ("memory", "1 GB free, 2 GB are needed")),
        ({"taken": [6380], "of_ray": [6381]}, ("ports", "port 6380 is taken")),
        ({"storage": "Read-only file system"}, ("storage", "Read-only file system")),
    ],
)
def test_each_fault_is_named(found: dict[str, Any], fault: tuple[str, str]) -> None:
    assert faults(**found) == [fault]


@pytest.mark.skipif(shutil.which("ss") is None, reason="only ss names the program that listens")
def test_a_port_is_not_rays_where_another_program_is_seen_to_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        assert not probe._may_be_rays(port)
        (name,) = Path("/proc/self/comm").read_text().split()
        monkeypatch.setattr(probe, "RAY", (name,))
        assert probe._may_be_rays(port)
    assert probe._may_be_rays(port), "no program is shown"


def test_a_pc_whose_host_can_be_no_name_does_not_answer() -> None:
    assert probe._silent(["pc..lan", 6379]) == "pc..lan:6379"


def test_a_pc_with_another_folder_keeps_no_file_of_the_check(tmp_path: Path) -> None:
    assert probe._storage(str(tmp_path), "mark", "mark-pc1") == "that path is a different folder on that PC"
    assert [*tmp_path.iterdir()] == []


def test_a_pc_whose_disk_is_full_keeps_no_file_of_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(path: Path, content: str) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", no_room)
    assert probe._storage(str(tmp_path), "mark", "mark-pc1") == "No space left on device"
    assert [*tmp_path.iterdir()] == []
    assert probe._storage(str(tmp_path / "gone"), "mark", "mark-pc1") == "No such file or directory"


def test_a_pc_without_packages_is_set_up_from_the_same_cluster_file() -> None:
    found = {**SOUND, "versions": None, "why_no_versions": "no such file"}
    (fault,) = check.faults_of(FILE, "pc1", found, HERE, 0.0)
    assert (fault.part, fault.remedy) == ("packages", "type: ray up -y my_cluster.yaml")


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        (Answer(127, "", "bash: python3: command not found"), "on that PC: apt-get install python3"),
        (
            Answer(1, "", "FileNotFoundError: '/proc/meminfo'"),
            "it must run Linux, and its python3 be 3.8 or newer",
        ),
    ],
)
def test_a_mac_needs_no_other_python(
    answer: Answer, remedy: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ClusterFile, "run", lambda *_: answer)
    assert check.run(FILE, None) == 1
    said = capsys.readouterr().out
    assert f"pc1  reach: python3 fails: {answer.errors}\n    {remedy}\n" in said


def test_several_faults_are_all_named() -> None:
    assert [part for part, _ in faults(90, memory=1, gpu_fault="no driver")] == ["gpu", "memory", "clock"]
