"""The faults of a PC, each with its reason and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sweeps.cluster import clock_skew
from sweeps.common.formatting import GB, size
from sweeps.pcs.cluster_file import PYTHON, ClusterFile

MIN_DISK_GB = 5
"""Free, for Ray's logs and spilled objects and for the packages."""
MIN_MEMORY_GB = 2
"""Free, for Ray's own processes (under 1 GB) and a trial."""
OF_RAY = ("gcs_server", "raylet")


class Fault(NamedTuple):
    """One thing that is wrong."""

    part: str
    """Its column in the table."""
    reason: str
    remedy: str


def find(
    file: ClusterFile, address: str, found: Mapping[str, Any], here: Mapping[str, str], skew_s: float
) -> Iterator[Fault]:
    """The faults of a PC that answered.

    Args:
        file: of the cluster.
        address: of the PC.
        found: the result of `probe.look`.
        here: the versions on this PC.
        skew_s: of its clock.
    """
    versions = found["versions"]
    if versions is None:
        reason = f"{PYTHON} does not run: {found['why_no_versions']}"
        yield Fault("packages", reason, f"type: ray up -y {file.path}")
    elif other := [name for name in here if _release(versions[name]) != _release(here[name])]:
        reason = "; ".join(f"{name} {versions[name]}, here {here[name]}" for name in other)
        remedy = "use the same requirements.lock on both, then: make .venv/.installed"
        yield Fault("packages", reason, "install the same Python on both" if other == ["python"] else remedy)
    if found["gpu_fault"]:
        remedy = "on that PC: install the driver of the GPU, reboot, run nvidia-smi"
        yield Fault("gpu", found["gpu_fault"], remedy)
    for path, free in found["disks"].items():
        if free < MIN_DISK_GB * GB:
            reason = f"{size(free)} free at {path}, {MIN_DISK_GB} GB are needed"
            yield Fault("disk", reason, "remove files there, or choose another folder")
    if found["memory"] < MIN_MEMORY_GB * GB:
        reason = f"{size(found['memory'])} free, {MIN_MEMORY_GB} GB are needed"
        yield Fault("memory", reason, "end the programs that use it")
    if reason := clock_skew.fault(skew_s):
        yield Fault("clock", reason, "timedatectl set-ntp true, on both")
    for port, holder in found["ports"].items():
        if holder and holder not in OF_RAY:
            remedy = "end that program, or change the port in the cluster file"
            yield Fault("ports", f"port {port} is taken by {holder}", remedy)
    if found["storage"]:
        remedy = f"mount it there, writable for that user (ssh {file.user}@{address})"
        yield Fault("storage", found["storage"], remedy)


def _release(version: str) -> str:
    """Without the build after a plus: torch for a CPU and for CUDA are one release."""
    return version.partition("+")[0]


def of_network(silent: Sequence[str]) -> list[Fault]:
    """The fault of a PC to which no answer comes back from some addresses and ports."""
    if not silent:
        return []
    remedy = "allow all traffic between the PCs in their firewalls (on both: ufw allow from ADDRESS)"
    return [Fault("ports", f"no answer from {', '.join(silent)}", remedy)]
