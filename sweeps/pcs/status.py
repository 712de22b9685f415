"""`sweeps pcs status [results/NAME]`: what the PCs of the running cluster do, and who waits.

For the head: there Ray's state API, which says what is where, is answered (by its dashboard). Which trial a
process trains stands in the record of the sweep alone, for a process trains many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeps.cluster import nodes
from sweeps.cluster.nodes import Node
from sweeps.common.cli import parser as cli_parser
from sweeps.common.errors import UserError
from sweeps.common.formatting import count
from sweeps.pcs import pending
from sweeps.pcs.connection import joined
from sweeps.pcs.pending import Offer

MOST = 10_000
"""Of a kind, that Ray lists."""
SHOWN = ("GPU", "CPU")


@dataclass(frozen=True)
class Process:
    """A process of a sweep, or of another program."""

    name: str
    pid: int


@dataclass(frozen=True)
class Use:
    """A PC, and what runs on it."""

    address: str
    hostname: str
    is_head: bool
    offer: Offer
    processes: Sequence[Process]


@dataclass(frozen=True)
class Seen:
    """A cluster at a moment."""

    pcs: Sequence[Use]
    lost: Sequence[str]
    """Addresses of PCs that were of it, and are not now."""
    waits: Sequence[Sequence[pending.Resources]] = field(default=())
    """What each that waits needs, a bundle per process."""


def run(arguments: Sequence[str]) -> int:
    """The command; its exit status.

    Raises:
        UserError: a flag is wrong, no cluster answers, or the folder holds no sweep.
    """
    address, folder = parse(arguments)
    trials = {} if folder is None else _trials(folder)
    for line in describe(look(address), trials):
        print(line)
    return 0


def parse(arguments: Sequence[str]) -> tuple[str, Path | None]:
    """Address of the cluster, and folder of a sweep.

    Raises:
        UserError: what is wrong.
        SystemExit: after `--help` (status 0).
    """
    command = "sweeps pcs status"
    parser = cli_parser.Parser(
        prog=command,
        usage="%(prog)s [results/NAME] [--address HOST:6379]",
        description="Show the PCs of the cluster that runs, what runs where, and why something waits.",
    )
    help_ = "A sweep: its processes are shown by their trials."
    parser.add_argument("folder", nargs="?", metavar="results/NAME", help=help_)
    cli_parser.add(parser, "address", str, "Ray cluster, as HOST:6379 or auto.", "auto")
    values = parser.values_of(arguments, "; give one sweep, as results/NAME")
    if values.folder is None:
        return values.address, None
    from sweeps.config.sweep_folder import no_sweep

    folder = Path(values.folder).expanduser()
    if (why := no_sweep(folder)) is not None:
        raise UserError(why)
    return values.address, folder


def look(address: str) -> Seen:
    """Ask a cluster.

    Raises:
        UserError: none answers, or its dashboard does not.
    """
    with joined(address) as gcs:
        from ray.util import state
        from ray.util.state.exception import RayStateApiException

        listed = nodes.listed()
        try:
            actors = state.list_actors(gcs, filters=[("state", "=", "ALIVE")], limit=MOST, detail=True)
            running: Any = [("state", "=", "RUNNING"), ("type", "=", "NORMAL_TASK")]  # not those of actors
            tasks = state.list_tasks(gcs, filters=running, limit=MOST, detail=True)
            groups = state.list_placement_groups(gcs, limit=MOST, detail=True)
        except RayStateApiException:
            where = "it answers on the head alone: run this there"
            raise UserError(f"--address {address}: Ray's dashboard does not answer; {where}") from None
    return _seen(listed, actors, tasks, groups)


def describe(seen: Seen, trials: Mapping[tuple[str, int], str]) -> list[str]:
    """As lines.

    Args:
        seen: the cluster.
        trials: (name of the PC, process id) to what it trains.
    """
    rows = [["pc", *(f"{name}s in use" for name in SHOWN), "runs"]]
    for pc in seen.pcs:
        runs = [
            trials.get((pc.hostname, process.pid), f"{process.name} {process.pid}")
            for process in pc.processes
        ]
        used = [f"{pc.offer.taken.get(name, 0):g} of {pc.offer.has.get(name, 0):g}" for name in SHOWN]
        rows.append(
            [f"{pc.address}{' (head)' if pc.is_head else ''}", *used, ", ".join(sorted(runs)) or "nothing"]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    lines += [f"{address}  lost: off, cut off, or Ray ended there" for address in seen.lost]
    reasons = [pending.why(bundles, [pc.offer for pc in seen.pcs]) for bundles in seen.waits]
    for reason in sorted(set(reasons)):
        lines.append(f"{count(reasons.count(reason), 'trial')} waiting: {reason or 'starts now'}")
    return lines


def _trials(folder: Path) -> dict[tuple[str, int], str]:
    """(Name of the PC, process id) to the trial of a sweep that trains there, by its last report."""
    from sweeps.record.journal import RecordUnreadable
    from sweeps.record.record import Record

    try:
        record = Record.read(folder)
    except (OSError, RecordUnreadable) as error:
        raise UserError(str(error)) from None
    unfinished = (trial for trial in record.trials if trial.status == "unfinished" and trial.place)
    return {
        (
            trial.place["pc"],
            trial.place["pid"],
        ): f"trial {trial.number} (epoch {max(trial.epochs, default=0)})"
        for trial in unfinished
    }


def _seen(
    listed: Sequence[Node],
    actors: Sequence[Any],
    tasks: Sequence[Any],
    groups: Sequence[Any],
) -> Seen:
    """What Ray answered, put together."""
    alive = [node for node in listed if node.is_alive]
    taken: dict[str, dict[str, float]] = {node.id: {} for node in alive}
    processes: dict[str, list[Process]] = {node.id: [] for node in alive}

    def take(node: str, resources: pending.Resources) -> None:
        for name, much in resources.items():
            if node in taken:
                taken[node][name] = taken[node].get(name, 0.0) + much

    for group in groups:
        for bundle in group.bundles or () if group.state == "CREATED" else ():
            take(bundle["node_id"], bundle["unit_resources"])
    for running in (*actors, *tasks):
        pid = getattr(running, "pid", None) or getattr(running, "worker_pid", None)
        if running.node_id in processes and pid:
            name = getattr(running, "class_name", None) or running.name
            processes[running.node_id].append(Process(name.rpartition(".")[2], pid))
        if running.placement_group_id is None:  # else its group has taken them
            take(running.node_id, running.required_resources or {})
    pcs = [
        Use(
            node.address,
            node.hostname,
            node.is_head,
            Offer(node.address, node.has, taken[node.id]),
            processes[node.id],
        )
        for node in alive
    ]
    here = {pc.address for pc in pcs}
    lost = sorted({node.address for node in listed} - here)
    waits = [[bundle["unit_resources"] for bundle in group.bundles] for group in groups if _waits(group)]
    return Seen(sorted(pcs, key=lambda pc: (not pc.is_head, pc.address)), lost, waits)


def _waits(group: Any) -> bool:
    return group.state in ("PENDING", "RESCHEDULING") and bool(group.bundles)
