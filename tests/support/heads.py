"""Ray heads of our own: own ports, own folder, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class Head(NamedTuple):
    """Where it listens, each as HOST:PORT; the two last ones only `with_doors`."""

    address: str
    dashboard: str
    client: str


PORTS = range(20_000, 32_000)
"""Above those that Ray keeps for its workers, below those that the kernel gives to who asks for any."""
OPEN = {"RAY_AUTH_MODE": "disabled"}


@contextlib.contextmanager
def head(
    settings: dict[str, str],
    hidden: Sequence[Path] = (),
    *,
    missing: Sequence[Path] = (),
    with_doors: bool = False,
    offers: Sequence[str] = ("--num-cpus=2",),
) -> Iterator[Head]:
    """A Ray head, ended by its process group.

    Args:
        settings: its environment, beside ours.
        hidden: packages that are an old copy, which raises, for it and its workers, and for nobody else.
        missing: packages that are not there, in the same way.
        with_doors: the dashboard, through which jobs come, and the port of Ray Client, too.
        offers: what it says that it has.
    """
    ports = _free_ports(4)
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # a socket's path must be short
    doors = [f"--dashboard-port={ports[1]}", f"--ray-client-server-port={ports[2]}"]
    doors += [f"--dashboard-agent-listen-port={ports[3]}"]  # jobs need it, and its own is fixed
    command = [
        *(str(Path(sys.executable).parent / "ray"), "start", "--head", "--block", *offers),
        *("--node-ip-address=127.0.0.1", f"--port={ports[0]}", f"--temp-dir={folder}"),
        *(doors if with_doors else ["--include-dashboard=false"]),
    ]
    if hidden or missing:
        mounts = [f"mount -t tmpfs tmpfs {shlex.quote(str(package))}" for package in (*hidden, *missing)]
        old = [f"echo 'old = 1 / 0' > {shlex.quote(str(package / '__init__.py'))}" for package in hidden]
        command = [
            "unshare",
            "--mount",
            "sh",
            "-ec",
            "; ".join((*mounts, *old, f"exec {shlex.join(command)}")),
        ]
    environment = {**os.environ, **settings, "RAY_USAGE_STATS_ENABLED": "0"}
    environment["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] = "0"
    started = subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        for port in ports if with_doors else ports[:1]:
            _wait_for(port)
        _wait_for_raylet(Path(folder))
        yield Head(*(f"127.0.0.1:{port}" for port in ports[:3]))
    finally:
        os.killpg(started.pid, signal.SIGTERM)
        started.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


def write_token(path: Path) -> Path:
    """A new token, in a file as Ray takes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(secrets.token_hex(32))
    path.chmod(0o600)
    return path


def with_token(path: Path) -> dict[str, str]:
    """The environment of a Ray that asks for the token in a file."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(path)}


def _free_ports(count: int) -> list[int]:
    """A Ray that another test starts meanwhile takes one that the kernel gives."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError(f"fewer than {count} ports are free")


def _wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"no Ray listens on port {port}")


def _wait_for_raylet(folder: Path) -> None:
    """The cluster answers before the PC it starts on is of it."""
    for _ in range(600):
        if (folder / "session_latest" / "sockets" / "raylet").exists():
            return
        time.sleep(0.1)
    raise AssertionError(f"no raylet started in {folder}")
