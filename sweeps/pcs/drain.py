"""`sweeps pcs drain [PC]`: take a PC out of the running cluster, in order.

Its trials write a checkpoint at the end of the epoch at hand and go on elsewhere; those whose epoch takes
longer than --timeout-s go on from the checkpoint before. Then Ray ends there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeps.cluster import broadcast, drain, nodes
from sweeps.cluster.nodes import Node
from sweeps.common.cli import parser as cli_parser
from sweeps.common.errors import UserError
from sweeps.common.formatting import count, duration
from sweeps.common.yaml_values import nearest
from sweeps.pcs import rejoin, status
from sweeps.pcs.connection import joined

TIMEOUT_S = 40.0
MOST_TIMEOUT_S = 86400
GRACE_S = 15.0
"""Behind the deadline: a sweep ends what still trains there only then."""
SAY_EVERY_S = 5.0
MARK_S = 20.0
"""For a small task on a PC."""
PROCESSES_S = 15.0
"""For processes of a Ray that has left; those of another Ray on this PC stay."""


@dataclass(frozen=True)
class Leaver:
    """A PC that is to leave."""

    node: Node
    is_here: bool
    gcs_address: str


def run(arguments: Sequence[str]) -> int:
    """The command; its exit status.

    Raises:
        UserError: a flag is wrong, no cluster answers, the PC is none of it or its head.
    """
    pc, address, timeout_s = parse(arguments)
    leaver = begin(address, pc, timeout_s)
    began = time.monotonic()
    if not _wait(leaver, address, began, timeout_s + GRACE_S):
        print(
            f"After {_since(began)} it is still there: {_at_work(leaver, address) or 'nothing of a sweep'}."
        )
        print("Ray gives it nothing new, and ends there when that has ended.")
        return 1
    if leaver.is_here:
        _outlast_processes()
        rejoin.stop_unit()
    print(f"{leaver.node.hostname} has left, after {_since(began)}.")
    where = "" if leaver.is_here else f", on {leaver.node.hostname}"
    print(f"Back{where}: sweeps pcs back")
    return 0


def parse(arguments: Sequence[str]) -> tuple[str | None, str, float]:
    """The PC, None for this one; the cluster's address; seconds that trials have.

    Raises:
        UserError: what is wrong.
        SystemExit: after `--help` (status 0).
    """
    command = "sweeps pcs drain"
    parser = cli_parser.Parser(
        prog=command,
        usage="%(prog)s [PC] [--timeout-s SECONDS] [--address HOST:6379]",
        description="Take a PC out of the cluster: its trials go on elsewhere, and Ray ends there.",
    )
    parser.add_argument("pc", nargs="?", metavar="PC", help="Its name or address; none: this PC.")
    help_ = "Seconds for the epoch at hand; then a trial goes on from the checkpoint before."
    cli_parser.add(parser, "timeout_s", float, help_, TIMEOUT_S)
    cli_parser.add(parser, "address", str, "Ray cluster, as HOST:6379 or auto.", "auto")
    values = parser.values_of(arguments, "; give one PC, by its name or address")
    if not 0 < values.timeout_s <= MOST_TIMEOUT_S:
        raise UserError(f"--timeout-s {values.timeout_s:g}: must be above 0, and {MOST_TIMEOUT_S} at most")
    return values.pc, values.address, values.timeout_s


def begin(address: str, pc: str | None, timeout_s: float) -> Leaver:
    """Begin to drain a PC of a cluster, which the head does not start again.

    Raises:
        UserError: it is none of the cluster, or its head, or Ray refuses.
    """
    with joined(address) as gcs:
        here = broadcast.here()
        node = choose(nodes.living(), pc, here)
        print(f"Draining {node.name} ...", flush=True)
        if not _done_on(node, rejoin.leave):
            under = "under worker_ips, the head starts Ray there again"
            print(f"{node.hostname} can't be told to stay away: {under}.")
        try:
            drain.drain(gcs, node.id, timeout_s)
        except BaseException:  # Ctrl-C, too: it was not drained
            _done_on(node, rejoin.stay)
            raise
    return Leaver(node, node.id == here, gcs)


def choose(living: Sequence[Node], pc: str | None, here: str) -> Node:
    """The one that is meant.

    Raises:
        UserError: none is, several are, or it is the head.
    """
    names = {name for node in living for name in _names(node)}
    found = [node for node in living if (node.id == here if pc is None else pc in _names(node))]
    if not found:
        there = ", ".join(sorted(node.hostname for node in living))
        raise UserError(f"{pc}: no PC of the cluster; there are {there}.{nearest(str(pc), sorted(names))}")
    if len(found) > 1:
        addresses = ", ".join(sorted(node.address for node in found))
        raise UserError(f"{pc}: {count(len(found), 'PC')} have that name; give an address of {addresses}")
    if found[0].is_head:
        raise UserError(
            f"{found[0].hostname} is the head, without which the cluster ends: "
            "give another PC, or end all by `sweeps pcs down`"
        )
    return found[0]


def _names(node: Node) -> tuple[str, str]:
    return node.hostname, node.address


def _done_on(node: Node, what: Callable[[], None]) -> bool:
    """Whether it was done there: by a small task, where it is another PC."""
    if node.id == broadcast.here():
        what()
        return True
    return not broadcast.answers(broadcast.begin([node], what), MARK_S)[node].fault


def _wait(leaver: Leaver, address: str, began: float, most_s: float) -> bool:
    """Until it has left; False when that takes longer."""
    say_at = began + SAY_EVERY_S
    while drain.is_there(leaver.gcs_address, leaver.node.id):
        if time.monotonic() > began + most_s:
            return False
        if time.monotonic() > say_at:
            print(f"{_since(began)}: {_at_work(leaver, address) or 'nothing runs there'}", flush=True)
            say_at += SAY_EVERY_S
        time.sleep(0.3)
    return True


def _at_work(leaver: Leaver, address: str) -> str:
    """What runs there, in words: seen from here by its processes, from the head by asking Ray."""
    if leaver.is_here:
        names = [name for name in _titles() if name.startswith("ray::") and name != "ray::IDLE"]
        return ", ".join(sorted(name.removeprefix("ray::") for name in names))
    try:
        seen = status.look(address)
    except UserError:  # away from the head nobody can say
        return "something"
    running = (process for pc in seen.pcs if pc.address == leaver.node.address for process in pc.processes)
    return ", ".join(sorted(f"{process.name} {process.pid}" for process in running))


def _outlast_processes() -> None:
    """The cluster hears that this PC has left some seconds before its last process ends."""
    ends_at = time.monotonic() + PROCESSES_S
    while time.monotonic() < ends_at and any(map(_is_rays, _titles())):
        time.sleep(0.2)


def _is_rays(title: str) -> bool:
    return title.startswith("ray::") or Path(title).name == "raylet"


def _titles() -> list[str]:
    """What the processes of this PC call themselves."""
    titles = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            titles.append(file.read_bytes().partition(b"\0")[0].decode(errors="replace").strip())
        except OSError:  # it has ended
            continue
    return titles


def _since(began: float) -> str:
    return duration(time.monotonic() - began)
