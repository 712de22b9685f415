"""`sweeps pcs check [ray_cluster.yaml]`: find what is wrong on each PC of the cluster file.

A PC is measured by `probe.look` and judged by `faults_of`; PARTS and `_cells` show the result.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from sweeps.common.cli import json_output, terminal
from sweeps.common.errors import UserError
from sweeps.common.formatting import GB, count, size
from sweeps.pcs.cluster_file import PYTHON, CannotReach, ClusterFile
from sweeps.ray_cluster import environment

PARTS = ("reach", "packages", "gpu", "disk", "memory", "clock", "ports", "storage")
"""Columns of the table."""
PROBE = Path(__file__).with_name("probe.py")
MIN_DISK_GB = 5
"""Free, for Ray's logs and spilled objects and for the packages."""
MIN_MEMORY_GB = 2
"""Free, for Ray's own processes (under 1 GB) and a trial."""
OPEN = "allow all traffic between the PCs in their firewalls (on both: ufw allow from ADDRESS)"


class Fault(NamedTuple):
    """One thing that is wrong."""

    part: str
    """Its column in the table."""
    reason: str
    remedy: str


@dataclass(frozen=True)
class Checked:
    """The result for a PC."""

    address: str
    cells: Mapping[str, str]
    """Of its row, by their parts; {} where it could not be reached."""
    faults: list[Fault]
    silent: Sequence[str] = ()
    """`ADDRESS:PORT` of PCs from which no answer came back to it."""


def run(file: ClusterFile, storage: str | None) -> int:
    """The command; its exit status.

    Raises:
        UserError: this PC can't write to the storage.
    """
    print(f"Checking {count(len(file.pcs), 'PC')} of {file.path} ...", flush=True)
    with _mark(storage) as mark:
        checked = file.on_each(lambda address: _check(file, address, storage, mark)).values()
    unreached = {pc.address for pc in checked if not pc.cells}
    for pc in checked:  # a PC that this one can't reach is no fault of the network between the others
        if silent := [peer for peer in pc.silent if peer.rpartition(":")[0] not in unreached]:
            pc.faults.append(Fault("ports", f"no answer from {', '.join(silent)}", OPEN))
    terminal.console().print(
        _table(file, [*checked], [part for part in PARTS if storage or part != "storage"])
    )
    json_output.answer(
        pcs=[
            {
                "address": pc.address,
                "is_head": pc.address == file.head,
                "parts": pc.cells,
                "faults": [fault._asdict() for fault in pc.faults],
            }
            for pc in checked
        ]
    )
    found = [(pc.address, fault) for pc in checked for fault in pc.faults]
    for address, fault in found:
        print(f"\n{address}  {fault.part}: {fault.reason}\n    {fault.remedy}")
    return 1 if found else 0


def _table(file: ClusterFile, checked: Sequence[Checked], parts: Sequence[str]) -> Table:
    table = terminal.plain_table("pc", *parts)
    for pc in checked:
        wrong = {fault.part for fault in pc.faults}
        name = f"{pc.address} (head)" if pc.address == file.head else pc.address
        cells = (Text("FAULT", "red") if part in wrong else Text(pc.cells.get(part, "-")) for part in parts)
        table.add_row(Text(name), *cells)
    return table


@contextlib.contextmanager
def _mark(storage: str | None) -> Iterator[str]:
    """The name of a file in the storage, which exists while the PCs look for it.

    Raises:
        UserError: it can't be written.
    """
    name = f".sweeps-check-{secrets.token_hex(8)}"
    if storage is None:
        yield name
        return
    folder = Path(storage).expanduser()
    try:
        (folder / name).touch()
    except OSError as error:
        raise UserError(f"--storage {storage}: this PC can't write there ({error.strerror})") from None
    try:
        yield name
    finally:
        (folder / name).unlink(missing_ok=True)


def _check(file: ClusterFile, address: str, storage: str | None, mark: str) -> Checked:
    here = environment.versions()
    asked = {
        "python": PYTHON,
        "packages": [name for name in here if name != "python"],
        "disks": ["~", file.temp_dir],
        "ports": file.ports_of(address),
        "peers": [(pc, port) for pc in file.pcs if pc != address for port in file.ports_of(pc)],
        "storage": None if storage is None else {"folder": storage, "mark": mark, "own": f"{mark}-{address}"},
    }
    before = time.time()
    try:
        answer = file.run(address, f"python3 - {shlex.quote(json.dumps(asked))}", PROBE.read_text())
    except CannotReach as error:
        return Checked(address, {}, [Fault("reach", error.reason, error.remedy)])
    if answer.status != 0:
        needs = "it must run Linux, and its python3 be 3.8 or newer"
        remedy = "on that PC: apt-get install python3" if answer.status == 127 else needs
        return Checked(address, {}, [Fault("reach", f"python3 fails: {answer.last_line}", remedy)])
    found = json.loads(answer.output.splitlines()[-1])
    skew_s = environment.clock_skew_s(found["clock"], (before, time.time()))
    faults = [*faults_of(file, address, found, here, skew_s)]
    return Checked(address, _cells(found, skew_s), faults, found["silent"])


def faults_of(
    file: ClusterFile, address: str, found: Mapping[str, Any], here: Mapping[str, str], skew_s: float
) -> Iterator[Fault]:
    """The faults of a PC that answered, by what `probe.look` has found and the versions on this PC."""
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
    if reason := environment.clock_fault(skew_s):
        yield Fault("clock", reason, "timedatectl set-ntp true, on both")
    for port in found["taken"]:
        remedy = f"end its program (sudo ss -ltnp 'sport = {port}'), or change the port in the cluster file"
        yield Fault("ports", f"port {port} is taken", remedy)
    if found["storage"]:
        remedy = f"mount it there, writable for that user (ssh {file.user}@{address})"
        yield Fault("storage", found["storage"], remedy)


def _release(version: str) -> str:
    """Without the build after a plus: torch for a CPU and for CUDA are one release."""
    return version.partition("+")[0]


def _cells(found: Mapping[str, Any], skew_s: float) -> dict[str, str]:
    gpu = "none"
    if gpus := found["gpus"]:  # of several kinds the first is shown
        name, driver, _ = (word.strip() for word in gpus[0].split(","))
        gpu = f"{len(gpus)} x {name}, {driver}"
    return {
        "reach": "ok",
        "packages": f"python {found['versions']['python']}" if found["versions"] else "",
        "gpu": gpu,
        "disk": size(min(found["disks"].values())),
        "memory": size(found["memory"]),
        "clock": f"{skew_s:+.1f} s",
        "ports": "used by Ray" if found["of_ray"] else "ok",
        "storage": "ok",
    }
