"""`sweeps pcs check [ray_cluster.yaml]`: look at every PC of the cluster file, all at a time."""

from __future__ import annotations

import contextlib
import json
import secrets
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.cluster import clock_skew
from sweeps.cluster.environment import versions
from sweeps.common.cli import parser as cli_parser
from sweeps.common.errors import UserError
from sweeps.common.formatting import count, size
from sweeps.pcs import cluster_file, diagnosis, ssh
from sweeps.pcs.cluster_file import PYTHON, ClusterFile
from sweeps.pcs.diagnosis import Fault

PARTS = ("reach", "packages", "gpu", "disk", "memory", "clock", "ports", "storage")
"""Columns of the table."""
PROBE = Path(__file__).with_name("probe.py")


@dataclass(frozen=True)
class Looked:
    """What came of looking at a PC."""

    address: str
    cells: Mapping[str, str]
    """Part to what it is like; where there is a fault the table says so."""
    faults: Sequence[Fault]
    deaf: Sequence[str] = ()


def run(arguments: Sequence[str]) -> int:
    """The command; its exit status.

    Raises:
        UserError: a flag or the cluster file is wrong, or this PC can't write to the storage.
    """
    file, storage = parse(arguments)
    print(f"Looking at {count(len(file.pcs), 'PC')} of {file.path} ...", flush=True)
    looked = look(file, storage)
    parts = [part for part in PARTS if part != "storage" or storage]
    print(table(looked, file, parts))
    found = [(pc.address, fault) for pc in looked for fault in pc.faults]
    for address, fault in found:
        print(f"\n{address}  {fault.part}: {fault.reason}\n    {fault.remedy}")
    return 1 if found else 0


def parse(arguments: Sequence[str]) -> tuple[ClusterFile, str | None]:
    """The cluster file, and the folder that all PCs shall see.

    Raises:
        UserError: what is wrong.
        SystemExit: after `--help` (status 0).
    """
    command = "sweeps pcs check"
    parser = cli_parser.Parser(
        prog=command,
        usage=f"%(prog)s [{cluster_file.DEFAULT}] [--storage FOLDER]",
        description="Look at every PC of a cluster file over SSH: what is wrong there, and what to do.",
    )
    parser.add_argument("file", type=str, nargs="?", default=cluster_file.DEFAULT, help="The cluster file.")
    cli_parser.add(
        parser, "storage", str | None, "Folder that every PC must see and write to.", None, "FOLDER"
    )
    values = parser.values_of(arguments, "; give one cluster file")
    return cluster_file.read(Path(values.file).expanduser()), values.storage


def look(file: ClusterFile, storage: str | None) -> list[Looked]:
    """Ask every PC, at the same time."""
    here = versions()
    with _mark(storage) as mark:
        looked = ssh.on_each(file.pcs, lambda address: _look_at(file, address, here, storage, mark))
    silent = {pc.address for pc in looked.values() if not pc.cells}
    return [_with_deaf(pc, silent) for pc in looked.values()]


def table(looked: Sequence[Looked], file: ClusterFile, parts: Sequence[str]) -> str:
    """A row per PC."""
    rows = [["pc", *parts]]
    for pc in looked:
        wrong = {fault.part for fault in pc.faults}
        name = f"{pc.address} (head)" if pc.address == file.head else pc.address
        rows.append([name, *("FAULT" if part in wrong else pc.cells.get(part, "-") for part in parts)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


@contextlib.contextmanager
def _mark(storage: str | None) -> Iterator[str]:
    """Name of a file of ours in the storage, as long as the PCs look for it.

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
        for file in folder.glob(f"{name}*"):
            file.unlink(missing_ok=True)


def _look_at(
    file: ClusterFile, address: str, here: Mapping[str, str], storage: str | None, mark: str
) -> Looked:
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
        answer = ssh.run(file, address, f"python3 - {shlex.quote(json.dumps(asked))}", PROBE.read_text())
    except ssh.CannotReach as error:
        return Looked(address, {}, [Fault("reach", error.reason, error.remedy)])
    if answer.status != 0:
        last = next(reversed(answer.errors.strip().splitlines()), f"exit status {answer.status}")
        return Looked(
            address, {}, [Fault("reach", f"python3 fails: {last}", "on it: apt-get install python3")]
        )
    said = json.loads(answer.output.splitlines()[-1])
    asked_between = (before, time.time())
    found = diagnosis.find(address, file.user, said, here, asked_between)
    return Looked(address, _cells(said, asked_between), found, said["deaf"])


def _with_deaf(pc: Looked, silent: set[str]) -> Looked:
    """With the faults of the network between PCs, but for those to a PC that nobody reaches."""
    deaf = [peer for peer in pc.deaf if peer.rpartition(":")[0] not in silent]
    return Looked(pc.address, pc.cells, [*pc.faults, *diagnosis.of_deaf(deaf)])


def _cells(said: Mapping[str, Any], asked_between: tuple[float, float]) -> dict[str, str]:
    return {
        "reach": "ok",
        "packages": f"python {said['versions']['python']}" if said["versions"] else "",
        "gpu": _in_short(said["gpus"]),
        "disk": size(min(said["disks"].values())),
        "memory": size(said["memory"]),
        "clock": f"{clock_skew.skew(said['clock'], asked_between):+.1f} s",
        "ports": "Ray runs" if any(said["ports"].values()) else "ok",
        "storage": "ok",
    }


def _in_short(gpus: Sequence[str]) -> str:
    """`2 x NVIDIA GeForce RTX 3060, 550.54`; PCs with several kinds of GPU show the first."""
    if not gpus:
        return "none"
    name, driver, _ = (word.strip() for word in gpus[0].split(","))
    return f"{len(gpus)} x {name}, {driver}"
