"""Print the state of a PC as one line of JSON; see `look`.

Sent over SSH and run by the `python3` of that PC, hence the standard library alone.
"""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

RAY = ("gcs_server", "raylet")
"""The programs of Ray that listen on the ports of a cluster file."""
VERSIONS = """
import json, platform, sys
from importlib.metadata import PackageNotFoundError, version
found = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        found[name] = "not installed"
print(json.dumps(found))
"""
"""Run by the Python that has the packages."""


def look(asked: dict[str, Any]) -> dict[str, Any]:
    """Look at this PC.

    Args:
        asked: `python` (path of the one with the packages), `packages` (names), `disks` (paths), `ports`
            (that must be free), `peers` ([address, port] of other PCs), `storage` (None, or `folder` with
            `mark` and `own`, the names of a file of the asking PC and of one to write).

    Returns:
        `clock` (seconds since 1970), `versions` (or None with `why_no_versions`), `gpus` (a line each)
        and `gpu_fault`, `disks` (free bytes by path), `memory` (free bytes), `of_ray` (the ports that Ray
        has taken), `taken` (those that another program has), `silent` ("address:port" of peers from which
        no answer comes back), `storage` (what is wrong, or "").
    """
    clock, python = time.time(), str(Path(asked["python"]).expanduser())
    versions, why_no_versions = _versions(python, asked["packages"])
    gpus, gpu_fault = _gpus(python)
    taken, has_ray = [port for port in asked["ports"] if _is_taken(port)], _has_ray()
    of_ray = [port for port in taken if has_ray and _may_be_rays(port)]
    with ThreadPoolExecutor(max_workers=32) as threads:
        silent = [peer for peer in threads.map(_silent, asked["peers"]) if peer]
    return {
        "clock": clock,
        "versions": versions,
        "why_no_versions": why_no_versions,
        "gpus": gpus,
        "gpu_fault": gpu_fault,
        "disks": {path: _free(path) for path in asked["disks"]},
        "memory": _memory(),
        "of_ray": of_ray,
        "taken": [port for port in taken if port not in of_ray],
        "silent": silent,
        "storage": _storage(**asked["storage"]) if asked["storage"] else "",
    }


def _free(path: str) -> int:
    """Free bytes on the disk of a path, which need not exist."""
    place = Path(path).expanduser().absolute()
    return shutil.disk_usage(next(near for near in (place, *place.parents) if near.exists())).free


def _memory() -> int:
    """Bytes that are free without swapping."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024


def _versions(python: str, packages: list[str]) -> tuple[dict[str, str] | None, str]:
    status, output = _output([python, "-c", VERSIONS, *packages])
    return (json.loads(output), "") if status == 0 else (None, output)


def _gpus(python: str) -> tuple[list[str], str]:
    """A line for each GPU of the driver; what is wrong."""
    cards = 0
    for device in Path("/sys/bus/pci/devices").glob("*"):
        with contextlib.suppress(OSError):
            is_nvidia = (device / "vendor").read_text().strip() == "0x10de"
            cards += is_nvidia and (device / "class").read_text().startswith("0x03")
    if shutil.which("nvidia-smi") is None:
        return [], f"{cards} NVIDIA GPU(s) without a driver" if cards else ""
    asked = "--query-gpu=name,driver_version,memory.total"
    status, output = _output(["nvidia-smi", asked, "--format=csv,noheader"])
    if status != 0:
        return [], output
    gpus = output.splitlines()
    code = "import torch; print(torch.cuda.device_count())"
    status, seen = _output([python, "-c", code])
    if status == 0 and int(seen) < len(gpus):
        return gpus, f"PyTorch sees {seen} of {len(gpus)} GPUs"
    return gpus, ""


def _output(command: list[str]) -> tuple[int, str]:
    """Exit status and output; the last line of the output where the command failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        return 1, str(error)
    lines = (done.stdout + done.stderr).strip().splitlines() or [f"exit status {done.returncode}"]
    return done.returncode, done.stdout.strip() if done.returncode == 0 else lines[-1]


def _is_taken(port: int) -> bool:
    """Whether a program listens on a port."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return True
    return False


def _has_ray() -> bool:
    """Whether Ray runs here, which takes these ports itself."""
    for file in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):  # the process has ended
            if file.read_text().strip() in RAY:
                return True
    return False


def _may_be_rays(port: int) -> bool:
    """Whether Ray listens on a port, or a program that this user may not see, which may be another's Ray."""
    _, listening = _output(["ss", "-ltnHp", f"sport = :{port}"])
    return "users:" not in listening or any(f'"{name}"' in listening for name in RAY)


def _silent(peer: list[Any]) -> str:
    """The peer as "address:port" where no answer comes back, not even a refusal; else ""."""
    host, port = peer
    try:
        socket.create_connection((host, port), timeout=3).close()
    except ConnectionRefusedError:
        return ""
    except (OSError, UnicodeError):  # the last of a host that can be no name
        return f"{host}:{port}"
    return ""


def _storage(folder: str, mark: str, own: str) -> str:
    """Write a file, which is removed again, and look for the one of the asking PC."""
    place = Path(folder).expanduser()
    try:
        try:
            (place / own).write_text(own)
        finally:  # a full disk has room for an empty file
            (place / own).unlink(missing_ok=True)
    except OSError as error:
        return error.strerror or str(error)
    return "" if (place / mark).exists() else "that path is a different folder on that PC"


if __name__ == "__main__":
    print(json.dumps(look(json.loads(sys.argv[1]))))
