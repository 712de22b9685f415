"""`python -m sweeps.pcs check` over real SSH, with faults that are there: each is named, with what to do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.pcs.__main__ import main
from sweeps.ray_cluster.environment import versions
from tests.support.cluster_of_pcs import CLUSTER_FILE, PYTHON, set_up, write
from tests.support.lab import HOME, PC, Lab, wait_until

SHARED = Path("/mnt")
"""Of each PC, until something is mounted there."""


@pytest.fixture(scope="module")
def three(lab_of: Callable[..., Lab]) -> list[PC]:
    """A head, from which is looked, and two workers."""
    pcs = lab_of(3).pcs
    for pc in pcs:
        set_up(pc)
    write(pcs[0], pcs[0], pcs[1:])
    return pcs


def check(head: PC, *arguments: str) -> tuple[int, str]:
    """Exit status and what is said."""
    command = (PYTHON, "-m", "sweeps.pcs", "check", str(CLUSTER_FILE), *arguments)
    done = head.run(*command, check=False, timeout_s=120)
    return done.returncode, done.stdout


def faulty(said: str) -> list[tuple[str, str]]:
    """Address and part of each fault."""
    return re.findall(r"^([\d.]+)  (\w+): ", said, flags=re.M)


@pytest.mark.slow
def test_all_is_right(three: list[PC]) -> None:
    status, said = check(three[0])
    assert status == 0, said
    rows = [line.split() for line in said.splitlines()[1:]]
    assert rows[0] == ["pc", "reach", "packages", "gpu", "disk", "memory", "clock", "ports"]
    assert [row[0] for row in rows[1:]] == [pc.address for pc in three]
    assert all(versions()["python"] in row for row in rows[1:])
    assert all(row[-1] == "ok" for row in rows[1:])


@pytest.mark.slow
def test_a_pc_that_is_off(three: list[PC]) -> None:
    head, worker, _ = three
    worker.power_cut()
    status, said = check(head)
    worker.power_on()
    worker.sshd()
    assert status == 1
    assert faulty(said) == [(worker.address, "reach")]
    assert "switch it on" in said


def test_a_key_that_it_does_not_take(three: list[PC]) -> None:
    head, worker, _ = three
    keys = worker.path("~/.ssh/authorized_keys")
    kept = keys.read_text()
    keys.write_text("")
    status, said = check(head)
    keys.write_text(kept)
    assert (status, faulty(said)) == (1, [(worker.address, "reach")])
    assert "Permission denied" in said
    assert f"this must work without a question: ssh -i {HOME}/.ssh/id_ed25519 root@{worker.address}" in said


@pytest.mark.parametrize("is_another", [False, True])
def test_a_host_key_that_is_unknown_or_another_one(is_another: bool, three: list[PC]) -> None:
    head, worker, third = three
    known = head.path("~/.ssh/known_hosts")
    kept = known.read_text()
    lines = [line for line in kept.splitlines() if not line.startswith(worker.address)]
    if is_another:
        lines.append(f"{worker.address} {third.path('~/.ssh/host_key.pub').read_text().strip()}")
    known.write_text("\n".join(lines) + "\n")
    status, said = check(head)
    known.write_text(kept)
    assert (status, faulty(said)) == (1, [(worker.address, "reach")])
    assert "Host key verification failed" in said


def test_another_version_of_a_package(three: list[PC]) -> None:
    """Its metadata are another version's, which is what `pip install` leaves."""
    head, worker, _ = three
    venv = worker.path("~/sweeps/.venv")
    others = worker.path("~/others")
    (others / "optuna-4.0.0.dist-info").mkdir(parents=True)
    (others / "optuna-4.0.0.dist-info" / "METADATA").write_text("Name: optuna\nVersion: 4.0.0\n")
    python = venv / "bin" / "python"
    (venv / "bin").unlink()
    (venv / "bin").mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH={HOME}/others exec {PYTHON} "$@"\n')
    python.chmod(0o755)
    status, said = check(head)
    shutil.rmtree(venv / "bin")
    (venv / "bin").symlink_to(Path(PYTHON).parent)
    assert (status, faulty(said)) == (1, [(worker.address, "packages")])
    assert f"optuna 4.0.0, here {versions()['optuna']}\n" in said


def test_no_packages_yet(three: list[PC]) -> None:
    head, worker, _ = three
    venv = worker.path("~/sweeps/.venv")
    venv.rename(venv.with_name("elsewhere"))
    status, said = check(head)
    venv.with_name("elsewhere").rename(venv)
    assert (status, faulty(said)) == (1, [(worker.address, "packages")])
    assert "No such file or directory" in said


def test_a_driver_that_does_not_answer(three: list[PC]) -> None:
    head, worker, _ = three
    told = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    _add_program(worker, "nvidia-smi", f'#!/bin/sh\necho "{told}"\nexit 9\n')
    status, said = check(head)
    _remove_program(worker, "nvidia-smi")
    assert (status, faulty(said)) == (1, [(worker.address, "gpu")])
    assert told in said


@pytest.mark.slow
def test_gpus_that_pytorch_does_not_see(three: list[PC]) -> None:
    """The driver answers for two, and PyTorch, which is real, finds none."""
    head, worker, _ = three
    card = "NVIDIA GeForce RTX 3060, 550.54, 12288 MiB"
    _add_program(worker, "nvidia-smi", f'#!/bin/sh\necho "{card}"\necho "{card}"\n')
    status, said = check(head)
    _remove_program(worker, "nvidia-smi")
    assert (status, faulty(said)) == (1, [(worker.address, "gpu")])
    assert "PyTorch sees 0 of 2 GPUs" in said


def test_a_wrong_clock(three: list[PC]) -> None:
    library = next(iter(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
    if library is None:
        pytest.skip("a wrong clock needs Debian's package faketime")
    head, worker, _ = three
    _again_sshd(worker, f"SetEnv=LD_PRELOAD={library} FAKETIME=+90s")
    status, said = check(head)
    _again_sshd(worker)
    assert (status, faulty(said)) == (1, [(worker.address, "clock")])
    assert re.search(r"clock: 1 min (2\d|30) s ahead of this PC", said)


def test_a_full_disk(three: list[PC]) -> None:
    head, worker, _ = three
    worker.run("sh", "-c", "mkdir -p /tmp/ray && mount -t tmpfs -o size=100m tmpfs /tmp/ray")
    head.path(CLUSTER_FILE).write_text(
        head.path(CLUSTER_FILE).read_text().replace("/var/tmp/ray", "/tmp/ray")
    )
    status, said = check(head)
    worker.run("umount", "/tmp/ray")
    head.path(CLUSTER_FILE).write_text(
        head.path(CLUSTER_FILE).read_text().replace("/tmp/ray", "/var/tmp/ray")
    )
    assert (status, faulty(said)) == (1, [(worker.address, "disk")])
    assert "105 MB free at /tmp/ray, 5 GB are needed" in said


@pytest.mark.slow
def test_a_taken_port(three: list[PC]) -> None:
    head, worker, _ = three
    listen = (
        "import socket, time; s = socket.create_server(('', 6381)); print('up', flush=True); time.sleep(60)"
    )
    with worker.start(PYTHON, "-c", listen) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        status, said = check(head)
        worker.signal(process, 9)
    assert (status, faulty(said)) == (1, [(worker.address, "ports")])
    assert "port 6381 is taken\n" in said


@pytest.mark.slow
def test_a_firewall_between_two_workers(three: list[PC]) -> None:
    """What the second sends to the third goes to a card that nobody has."""
    head, second, third = three
    nowhere = ("ip", "neigh", "replace", third.address, "lladdr", "02:00:00:00:0f:0f", "dev", "eth0")
    second.run(*nowhere, "nud", "permanent")
    status, said = check(head)
    second.run("ip", "neigh", "del", third.address, "dev", "eth0")
    assert (status, faulty(said)) == (1, [(second.address, "ports"), (third.address, "ports")])
    assert f"no answer from {third.address}:6380, {third.address}:6381" in said


@pytest.mark.slow
def test_a_storage_that_is_the_same_folder_for_all(lab_of: Callable[..., Lab], tmp_path: Path) -> None:
    pcs = lab_of(2, shared=[tmp_path]).pcs
    for pc in pcs:
        set_up(pc)
    write(pcs[0], pcs[0], pcs[1:])
    status, said = check(pcs[0], "--storage", str(tmp_path))
    assert status == 0, said
    assert said.splitlines()[1].split()[-1] == "storage"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("mount -t tmpfs tmpfs /mnt", "that path is a different folder on that PC"),
        ("mount -t tmpfs -o ro tmpfs /mnt", "Read-only file system"),
        ("mount -t tmpfs -o nr_inodes=1 tmpfs /mnt", "No space left on device"),
    ],
)
def test_a_storage_of_its_own(command: str, reason: str, three: list[PC]) -> None:
    head, worker, third = three
    for pc in (head, third):
        pc.run("sh", "-c", "mount -t tmpfs tmpfs /mnt")
    worker.run("sh", "-c", command)
    status, said = check(head, "--storage", str(SHARED))
    for pc in three:
        pc.run("umount", "/mnt")
    assert status == 1
    assert faulty(said)[0] == (worker.address, "storage")
    assert f"{worker.address}  storage: {reason}" in said


def _add_program(pc: PC, name: str, text: str) -> None:
    pc.path("~/bin").mkdir(exist_ok=True)
    pc.path(f"~/bin/{name}").write_text(text)
    pc.path(f"~/bin/{name}").chmod(0o755)
    _again_sshd(pc, f"SetEnv=PATH={HOME}/bin:/usr/bin:/bin")


def _remove_program(pc: PC, name: str) -> None:
    pc.path(f"~/bin/{name}").unlink()
    _again_sshd(pc)


def _again_sshd(pc: PC, *options: str) -> None:
    pid_file = pc.path("/run/sshd.pid")
    pc.run("kill", pid_file.read_text().strip())
    wait_until(lambda: not pid_file.exists(), "the end of sshd")
    pc.sshd(*options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a command. Choices: check, "),
        (["chek"], "Did you mean 'check'?"),
        (["check", "--storag", "x"], "Did you mean '--storage'?"),
        (["check", "a.yaml", "b.yaml"], "give one cluster file"),
        (["check", "--storage", "/nowhere"], "this PC can't write there (No such file or directory)"),
    ],
)
def test_a_mistake_is_answered(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("error: ")
