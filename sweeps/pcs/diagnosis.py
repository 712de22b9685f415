"""What is wrong with a PC, by what it says of itself: each fault with its reason and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sweeps.cluster import clock_skew
from sweeps.common.formatting import GB, size
from sweeps.pcs.cluster_file import PYTHON

MIN_DISK_GB = 5
"""Free, for Ray's logs and spilled objects and for the packages."""
MIN_MEMORY_GB = 2
"""Free, for Ray's own processes (under 1 GB) and a trial."""
OF_RAY = ("gcs_server", "raylet")


class Fault(NamedTuple):
    """One thing that is wrong."""

    part: str
    """Column of the table that it belongs to."""
    reason: str
    remedy: str


def find(
    address: str,
    user: str,
    said: Mapping[str, Any],
    here: Mapping[str, str],
    asked_between: tuple[float, float],
) -> list[Fault]:
    """All that is wrong with a PC that answered.

    Args:
        address: of it.
        user: who logs in there.
        said: see `probe.look`.
        here: this PC's versions.
        asked_between: seconds since 1970 on this PC before and after it was asked.
    """
    return [
        *_of_versions(said, here),
        *_of_gpus(said),
        *_of_space(said),
        *_of_the_clock(clock_skew.skew(said["clock"], asked_between)),
        *_of_ports(said),
        *(
            [
                Fault(
                    "storage", said["storage"], f"mount it there, and let {user} write (ssh {user}@{address})"
                )
            ]
            if said["storage"]
            else []
        ),
    ]


def _of_versions(said: Mapping[str, Any], here: Mapping[str, str]) -> list[Fault]:
    if said["versions"] is None:
        reason = f"{PYTHON} does not run: {said['why_no_versions']}"
        return [Fault("packages", reason, "ray up -y, which sets it up")]
    there = said["versions"]
    other = [name for name in here if _public(there[name]) != _public(here[name])]
    if not other:
        return []
    reason = "; ".join(f"{name} {there[name]}, here {here[name]}" for name in other)
    remedy = "the same requirements.lock on both, then: make .venv/.installed"
    return [Fault("packages", reason, "the same Python on both" if other == ["python"] else remedy)]


def _public(version: str) -> str:
    """Without the build behind a plus: torch of a CPU and of CUDA are one version."""
    return version.partition("+")[0]


def _of_gpus(said: Mapping[str, Any]) -> list[Fault]:
    if not said["gpu_fault"]:
        return []
    return [Fault("gpu", said["gpu_fault"], "on it: install the driver of the card, reboot, run nvidia-smi")]


def _of_space(said: Mapping[str, Any]) -> list[Fault]:
    faults = [
        Fault(
            "disk",
            f"{size(free)} free at {path}, {MIN_DISK_GB} GB are needed",
            "make room, or name another place",
        )
        for path, free in said["disks"].items()
        if free < MIN_DISK_GB * GB
    ]
    if said["memory"] < MIN_MEMORY_GB * GB:
        reason = f"{size(said['memory'])} free, {MIN_MEMORY_GB} GB are needed"
        faults.append(Fault("memory", reason, "end what takes it"))
    return faults


def _of_the_clock(seconds: float) -> list[Fault]:
    reason = clock_skew.fault(seconds)
    return [Fault("clock", reason, "timedatectl set-ntp true, on both")] if reason else []


def _of_ports(said: Mapping[str, Any]) -> list[Fault]:
    taken = {port: holder for port, holder in said["ports"].items() if holder and holder not in OF_RAY}
    return [
        Fault("ports", f"port {port} is taken by {holder}", "end it, or change the port in the cluster file")
        for port, holder in taken.items()
    ]


def of_deaf(peers: Sequence[str]) -> list[Fault]:
    """Peers of a PC from which nothing comes back."""
    if not peers:
        return []
    remedy = "let the firewalls pass all between the PCs (on both: ufw allow from ADDRESS)"
    return [Fault("ports", f"nothing comes back from {', '.join(peers)}", remedy)]
