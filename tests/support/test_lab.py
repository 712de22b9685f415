"""PCs of the lab are PCs: apart from each other and from this machine, joined by a network that can fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import ROOT
from tests.support import lab
from tests.support.lab import PC, Lab

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5")


@pytest.fixture(scope="module")
def two(lab_of: Callable[..., Lab]) -> tuple[PC, PC]:
    first, second = lab_of(2).pcs
    return first, second


def answers(from_pc: PC, to: PC) -> bool:
    return from_pc.run("ping", "-c1", "-W1", to.address, check=False).returncode == 0


def test_a_pc_has_its_own_name_address_processes_and_folders(two: tuple[PC, PC]) -> None:
    for pc in two:
        assert pc.run("hostname").stdout.strip() == pc.name
        assert pc.run("getent", "ahostsv4", pc.name).stdout.split()[0] == pc.address
        assert len(pc.run("ps", "-A", "--no-headers").stdout.splitlines()) == 2  # its first one, and ps
        for place in ("/tmp", "~", "/run", "/dev/shm"):
            pc.path(f"{place}/mine").write_text(pc.name)
            assert pc.run("cat", f"{pc_place(place)}/mine").stdout == pc.name
    assert not Path("/tmp/mine").exists()


def pc_place(place: str) -> str:
    return place.replace("~", str(lab.HOME))


def test_no_cable_leads_out(two: tuple[PC, PC]) -> None:
    assert "default" not in two[0].run("ip", "route").stdout
    lab.wait_until(lambda: answers(*two), "the network")


def test_it_has_this_project_and_its_python(two: tuple[PC, PC]) -> None:
    code = "import sweeps, torch; print(sweeps.__file__)"
    assert two[0].run(sys.executable, "-c", code).stdout.strip() == str(ROOT / "sweeps" / "__init__.py")


def test_a_pulled_cable_loses_packets_and_nothing_else(two: tuple[PC, PC]) -> None:
    first, second = two
    with second.start("sleep", "60") as process:
        second.unplug()
        assert not answers(first, second)
        assert process.poll() is None
        second.plug_in()
        lab.wait_until(lambda: answers(first, second), "the network")
        second.signal(process, signal.SIGTERM)


def test_a_power_cut_ends_all_processes_and_keeps_the_disk(two: tuple[PC, PC]) -> None:
    first, second = two
    second.path("/tmp/kept").write_text("disk")
    second.path("/dev/shm/lost").write_text("memory")
    with second.start("sleep", "60") as process:
        second.power_cut()
        assert process.wait(timeout=30) != 0
    assert not answers(first, second)
    second.power_on()
    lab.wait_until(lambda: answers(first, second), "the network")
    assert second.path("/tmp/kept").read_text() == "disk"
    assert not second.path("/dev/shm/lost").exists()


def test_ssh_logs_in_with_the_key_and_knows_the_host(two: tuple[PC, PC]) -> None:
    first, second = two
    second.sshd()
    assert first.run(*SSH, second.address, "hostname").stdout.strip() == second.name
    first.path("~/.ssh/known_hosts").write_text("")
    refused = first.run(*SSH, second.address, "hostname", check=False)
    assert refused.returncode == 255
    assert "Host key verification failed" in refused.stdout


def test_a_shared_folder_is_a_file_server(lab_of: Callable[..., Lab], tmp_path: Path) -> None:
    first, second = lab_of(2, shared=[tmp_path]).pcs
    first.run("sh", "-c", f"echo seen > {tmp_path}/file")
    assert second.run("cat", f"{tmp_path}/file").stdout == "seen\n"


def test_two_labs_have_the_same_addresses_and_do_not_meet(
    two: tuple[PC, PC], lab_of: Callable[..., Lab]
) -> None:
    (alone,) = lab_of(1).pcs
    assert alone.address == two[0].address
    assert not answers(alone, two[1])


@pytest.mark.usefixtures("lab_of")  # it skips where there can be no lab
def test_a_lab_is_gone_with_a_process_that_was_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from tests.support.lab import Lab; "
        "made = Lab(Path(sys.argv[1])); pc, = made.add(1); pc.start('sleep', '3600'); "
        "print(pc.path('/').parent.name, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        first_process = int(maker.stdout.readline())
        assert Path(f"/proc/{first_process}").exists()
        os.kill(maker.pid, signal.SIGKILL)
    lab.wait_until(lambda: not Path(f"/proc/{first_process}").exists(), "the PC's end")
