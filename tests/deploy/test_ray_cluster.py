"""`ray_cluster.yaml`: its words by themselves, and Ray's launcher with it on PCs with a real SSH server."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweeps.pcs import back
from sweeps.record.record import Record
from tests.conftest import ROOT
from tests.support import cluster_of_pcs, lab
from tests.support.cluster_of_pcs import CLUSTER_FILE, PYTHON, RAY, nodes, set_up
from tests.support.json_lines import checked
from tests.support.lab import PC, Lab

FILE = ROOT / "ray_cluster.yaml"
LOCK = dict(re.findall(r"^([\w.-]+)==([\w.]+)$", (ROOT / "requirements.lock").read_text(), flags=re.M))


def test_a_version_in_it_is_that_of_the_lock() -> None:
    stated = re.findall(r"\b([a-z][\w-]*)(?: |==)(\d+\.\d+\.\d+)\b", FILE.read_text())
    assert stated
    assert [(name, version) for name, version in stated if LOCK.get(name) != version] == []


def test_what_it_copies_is_there_and_is_not_what_is_large() -> None:
    mounts = yaml.safe_load(FILE.read_text())["file_mounts"]
    here = [local for local in mounts.values() if not local.startswith("~")]
    packages = {"sweeps", "trainables", "search_spaces"}
    assert set(here) == {"Makefile", "requirements.lock", "deploy", *packages}
    assert all((ROOT / local).exists() for local in here)
    assert all(there == f"~/sweeps/{local}" for there, local in mounts.items() if local in here)


def test_all_that_starts_a_ray_asks_for_the_token() -> None:
    settings = yaml.safe_load(FILE.read_text())
    started = settings["head_start_ray_commands"] + settings["worker_start_ray_commands"]
    started = [command for command in started if "ray start" in command]
    assert len(started) == 2
    assert all("RAY_AUTH_MODE=token " in command.partition("ray start")[0] for command in started)


def test_the_head_leaves_a_pc_alone_that_was_drained(tmp_path: Path) -> None:
    """The commands that it gives to a PC again and again, with a mark and a `ray` of ours: neither is a Ray
    started, nor one ended that the PC's user has started since."""
    commands = yaml.safe_load(FILE.read_text())["worker_start_ray_commands"]
    mark, called, ray = tmp_path / "mark", tmp_path / "called", tmp_path / "ray"
    ray.write_text(f"#!/bin/sh\necho $1 >> {called}\n")
    ray.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RAY_HEAD_IP": "10.0.0.1"}

    def calls() -> list[str]:
        called.write_text("")
        for command in commands:
            line = command.replace(str(back.MARK), str(mark))
            subprocess.run(["sh", "-c", line], check=True, env=environment)
        return called.read_text().split()

    assert calls() == ["stop", "start"]
    mark.touch()
    assert calls() == []


@pytest.mark.long
def test_ray_up_exec_attach_and_down(lab_of: Callable[..., Lab]) -> None:
    """From a laptop that is not of the cluster, with the file as it is shipped but for addresses and user."""
    laptop, head, worker = lab_of(3).pcs
    for pc in (head, worker):
        set_up(pc)
    cluster_of_pcs.write(laptop, head, [worker])
    laptop.path("~/.ray/auth_token").chmod(0o644)  # as Ray makes it
    up = laptop.run(RAY, "up", "-y", str(CLUSTER_FILE), check=False, timeout_s=180)
    assert up.returncode == 0, up.stdout
    both = [head.address, worker.address]
    lab.wait_until(lambda: nodes(head) == both, "the worker", timeout_s=120)

    status = laptop.run(RAY, "exec", str(CLUSTER_FILE), "ray status", timeout_s=120).stdout
    assert re.search(r"^ 2 local\.cluster\.node", status, flags=re.M), status
    assert f"42 {head.name}" in _attached(laptop, "echo $((6*7)) $(hostname)")
    _nobody_without_the_token_gets_in(laptop, head)

    assert {pc.path("~/.ray/auth_token").stat().st_mode & 0o777 for pc in (head, worker)} == {0o600}

    worker.power_cut()
    lab.wait_until(lambda: nodes(head) == [head.address], "the loss of the worker to be seen")
    worker.power_on()
    worker.sshd()
    lab.wait_until(lambda: nodes(head) == both, "the head to start the worker again", timeout_s=180)

    down = laptop.run(RAY, "down", "-y", str(CLUSTER_FILE), check=False, timeout_s=120)
    assert down.returncode == 0, down.stdout
    assert "raylet" not in head.run("ps", "-A").stdout
    ended = laptop.run(PYTHON, "-m", "sweeps.pcs", "down", str(CLUSTER_FILE), timeout_s=120).stdout
    assert ended.splitlines()[-1] == "Ray has stopped on 2 PCs."
    assert "raylet" not in worker.run("ps", "-A").stdout


@pytest.mark.long
def test_the_commands_for_pcs_print_lines_of_the_schema(lab_of: Callable[..., Lab]) -> None:
    """On PCs that are there, one of which is taken out."""
    head, worker = lab_of(2).pcs
    for pc in (head, worker):
        set_up(pc)
    cluster_of_pcs.write(head, head, [worker])
    address = cluster_of_pcs.start_head(head)
    cluster_of_pcs.join(worker, address)
    lab.wait_until(lambda: nodes(head) == [head.address, worker.address], "the worker", timeout_s=120)

    def typed(pc: PC, name: str, *words: str) -> list[dict[str, Any]]:
        done = pc.run(PYTHON, "-m", "sweeps.pcs", name, *words, "--json", check=False, timeout_s=180)
        said = [line for line in done.stdout.splitlines() if line.startswith('{"event": ')]
        lines = checked(f"pcs {name}", "\n".join(said))
        assert lines[-1]["exit_status"] == done.returncode, done.stdout
        return lines

    found = typed(head, "check", str(CLUSTER_FILE))[-1]["pcs"]
    assert [pc["address"] for pc in found] == [head.address, worker.address]
    assert len(typed(head, "status")[0]["pcs"]) == 2
    left = typed(head, "drain", worker.address)[-1]
    assert (left["address"], left["has_left"], left["exit_status"]) == (worker.address, True, 0)
    assert typed(worker, "back")[-1]["was_away"] is True
    assert typed(head, "drain", worker.address)[-1]["exit_status"] == 2
    assert typed(head, "down", str(CLUSTER_FILE))[-1]["faults"] == []


@pytest.mark.long
def test_the_words_of_the_docs_lead_from_four_machines_to_a_sweep_on_all_of_them(
    lab_of: Callable[..., Lab],
) -> None:
    """As they stand there, but for the addresses, the user and what the cluster file is called."""
    *machines, laptop = lab_of(5).pcs
    for machine in machines:
        set_up(machine)
        machine.run("sh", "-c", "rm ~/.ssh/id_ed25519* ~/.ssh/known_hosts")
    cluster_of_pcs.write(laptop, machines[0], machines[1:])
    laptop.path("~/.ray/auth_token").unlink()
    laptop.run("sh", "-c", "ssh-keygen -y -f ~/.ssh/id_ed25519 > ~/.ssh/id_ed25519.pub")

    page = (ROOT / "docs" / "cluster.md").read_text().replace("192.168.1.", lab.NET).replace("me@", "root@")
    page = re.sub(r"^sweeps (\w+)", r".venv/bin/python -m sweeps.\1", page, flags=re.M)
    _, keys, cluster, sweep = re.findall(r"```bash\n(.*?)```", page, re.S)[:4]
    check, up, _, down = cluster.replace("pcs check", f"pcs check {CLUSTER_FILE}").splitlines()
    run, status = sweep.replace("/home/me", str(lab.HOME)).splitlines()

    laptop.run("bash", "-ec", keys, timeout_s=120)
    checked = laptop.run("sh", "-c", check, timeout_s=120).stdout
    assert "FAULT" not in checked
    laptop.run("sh", "-c", up.replace("ray_cluster.yaml", str(CLUSTER_FILE)), timeout_s=240)
    everyone = [machine.address for machine in machines]
    lab.wait_until(lambda: nodes(machines[0]) == everyone, "the workers", timeout_s=180)
    small = f"cd ~/sweeps && {run} --num-trials 8 --max-epochs 9 --min-free-gb 0 --name all"
    said = machines[0].run("bash", "-ec", small, timeout_s=400).stdout
    record = Record.read(machines[0].path("~/sweeps/results/all"))
    assert {trial.status for trial in record.trials} <= {"finished", "pruned"}, said
    assert len({trial.place["pc"] for trial in record.trials}) > 2  # one that is free early may take two
    assert "4 PCs" in said
    assert list(machines[0].path("~/checkpoints/all").glob("trial_*/epoch_*.tar")), "the winner's"
    line = f"cd ~/sweeps && {status.replace('results/NAME', 'results/all')}"
    assert machines[3].address in machines[0].run("bash", "-ec", line, timeout_s=120).stdout
    ended = laptop.run("sh", "-c", down.replace("pcs down", f"pcs down {CLUSTER_FILE}"), timeout_s=120).stdout
    assert "Ray has stopped on 4 PCs." in ended


def _attached(laptop: PC, command: str) -> str:
    """What is on the terminal when a command was typed in `ray attach`."""
    laptop.path("/tmp/typed").write_text(f"{command}\nexit\n")
    attach = f"script -qec '{RAY} attach {CLUSTER_FILE}' /dev/null < /tmp/typed"
    return laptop.run("sh", "-c", attach, timeout_s=60).stdout


def _nobody_without_the_token_gets_in(laptop: PC, head: PC) -> None:
    said = laptop.run(RAY, "status", f"--address={head.address}:6379", check=False).stdout
    assert "AuthenticationError" in said
