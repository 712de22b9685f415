"""Ray clusters of the lab's PCs: `ray_cluster.yaml` with their addresses, the packages on their disks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests import ROOT
from tests.support.lab import HOME, PC

CLUSTER_FILE = Path("/tmp/ray_cluster.yaml")
"""On the PC where commands are typed."""
VENV = Path(sys.prefix).resolve()
RAY = str(VENV / "bin" / "ray")
PYTHON = str(VENV / "bin" / "python")
TOKEN = "f" * 64


def write(laptop: PC, head: PC, workers: Sequence[PC]) -> Path:
    """The cluster file that this project ships, with what it says to change changed, and a token."""
    text = (ROOT / "ray_cluster.yaml").read_text()
    for shipped, ours in (
        ("head_ip: 192.168.1.10", f"head_ip: {head.address}"),
        (
            "worker_ips: [192.168.1.11, 192.168.1.12, 192.168.1.13]",
            f"worker_ips: {json.dumps([worker.address for worker in workers])}",
        ),
        ("ssh_user: me", "ssh_user: root"),
    ):
        assert text.count(shipped) == 1
        text = text.replace(shipped, ours)
    laptop.path(CLUSTER_FILE).write_text(text)
    give_token(laptop)
    return CLUSTER_FILE


def set_up(pc: PC) -> None:
    """SSH with SFTP, and the packages that `make` would load down: no cable leads to where they are."""
    pc.sshd("Subsystem=sftp internal-sftp")
    venv = HOME / "sweeps" / ".venv"
    pc.run("sh", "-c", f"mkdir -p {venv} && ln -s {VENV}/* {venv} && touch {venv}/.installed")


def give_token(pc: PC) -> None:
    """What opens the cluster."""
    pc.path("~/.ray").mkdir(exist_ok=True)
    pc.path("~/.ray/auth_token").write_text(TOKEN)
    pc.path("~/.ray/auth_token").chmod(0o600)


def start_head(pc: PC, cpus: int = 1, **more: str) -> str:
    """A Ray head without the launcher, that finds lost PCs as `ray_cluster.yaml` has it; its address."""
    give_token(pc)
    head = next(line for line in _shipped("head_start_ray_commands") if "ray start" in line)
    settings = {
        word.partition("=")[0]: word.partition("=")[2] for word in head.split() if word.startswith("RAY_")
    }
    small = (f"--num-cpus={cpus}", "--object-store-memory=100000000", "--disable-usage-stats")
    pc.run(RAY, "start", "--head", *small, env={**settings, **more}, timeout_s=240)
    return f"{pc.address}:6379"


def join(pc: PC, address: str, **more: str) -> subprocess.Popen[str]:
    """One more PC, as its systemd unit has it."""
    give_token(pc)
    small = ("--block", "--num-cpus=1", "--object-store-memory=100000000", "--disable-usage-stats")
    return pc.start(RAY, "start", f"--address={address}", *small, env={"RAY_AUTH_MODE": "token", **more})


def nodes(pc: PC) -> list[str]:
    """Addresses of the living PCs of the cluster whose head is at `pc`."""
    code = (
        "import ray; ray.init(address='auto', logging_level='ERROR', log_to_driver=False); "
        "print('alive', *[node['NodeManagerAddress'] for node in ray.nodes() if node['Alive']])"
    )
    said = pc.run(PYTHON, "-c", code, env={"RAY_AUTH_MODE": "token"}, check=False).stdout
    lines = [line for line in said.splitlines() if line.startswith("alive ")]
    return sorted(lines[-1].split()[1:]) if lines else []


def _shipped(name: str) -> Any:
    return yaml.safe_load((ROOT / "ray_cluster.yaml").read_text())[name]
