"""`sweeps pcs status [results/NAME]`: what runs on each PC of the running cluster, and why a trial waits.

For the head, where Ray's dashboard answers. Ray's state API lists the processes of each PC; which trial a
process trains is in the record of the sweep alone, since a process trains many. Imported after
`ray_environment.prepare_to_look`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ray.util import state
from ray.util.state.exception import RayStateApiException
from rich.table import Table

from sweeps.common.cli import json_output, terminal
from sweeps.common.errors import UserError
from sweeps.common.formatting import GB, command, count
from sweeps.common.imports import missing
from sweeps.ray_cluster import nodes
from sweeps.ray_cluster.nodes import Node, joined
from sweeps.ray_start.ray_folder import ray_folders
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record

MOST = 10_000
"""Rows of an answer of Ray."""
SHOWN = ("GPU", "CPU")
Resources = Mapping[str, float]
"""Amount of each resource, by Ray's names (CPU, GPU, memory in bytes, the user's own)."""


@dataclass(frozen=True)
class Use:
    """A PC, and what runs on it."""

    node: Node
    taken: dict[str, float] = field(default_factory=dict)
    processes: list[tuple[str, int]] = field(default_factory=list)
    """Name and process id."""

    @property
    def free(self) -> Resources:
        """What is not taken."""
        return {name: amount - self.taken.get(name, 0.0) for name, amount in self.node.has.items()}

    def take(self, resources: Resources) -> None:
        """Count resources as taken."""
        for name, amount in resources.items():
            self.taken[name] = self.taken.get(name, 0.0) + amount


def run(address: str | None, folder: Path | None) -> int:
    """The command; its exit status.

    Args:
        address: of a cluster; None: all Rays of this user's sweeps on this PC, where there are any, else the
            cluster that this PC is in.
        folder: of a sweep.

    Raises:
        UserError: no cluster answers, one here has no dashboard, or the sweep can't be read.
    """
    trials = {} if folder is None else _trials(folder)
    states = [each.state() for each in ray_folders()] if address is None else []
    here = [state for state in states if state is not None and state.address]
    shown = [state.address for state in here if state.dashboard_url] if here else [address or "auto"]
    if here:
        os.environ.pop("RAY_API_SERVER_ADDRESS", None)  # of a cluster; Ray's state API would ask there
    for each in shown:
        if len(here) > 1:
            print(f"Ray at {each}:")
        _show(each, trials)
    if mute := [state.address for state in here if not state.dashboard_url]:
        raise UserError(
            f"Ray at {' and '.join(mute)}, of your sweeps here, runs without its dashboard, which lists its "
            f"processes: {missing('aiohttp_cors', 'dashboard') or 'it was started with --no-ray-dashboard'}. "
            f"{command('queue')} shows the sweeps"
        )
    return 0


def _show(address: str, trials: Mapping[tuple[str, int], str]) -> None:
    pcs, lost, waiting = look(address)
    reasons = Counter(why_waiting(bundles, pcs) for bundles in waiting)
    json_output.write(
        "ray",
        address=address,
        pcs=[_about(pc, trials) for pc in pcs],
        lost=lost,
        waiting=[{"trials": many, "for": reason} for reason, many in sorted(reasons.items())],
    )
    terminal.console().print(_table(pcs, trials))
    for pc in lost:
        print(f"{pc} is lost: it is off or unplugged, or Ray has stopped there")
    for reason, many in sorted(reasons.items()):
        print(f"{count(many, 'trial')} {'waits' if many == 1 else 'wait'} for {reason}")


def why_waiting(bundles: Sequence[Resources], pcs: Sequence[Use]) -> str:
    """For what a trial waits that needs these bundles at the same time, each on one PC."""
    each = ", ".join(_in_words(name, amount) for name, amount in bundles[0].items() if amount)
    wanted = each if len(bundles) == 1 else f"{len(bundles)} times {each}"
    if not _fit(bundles, [pc.node.has for pc in pcs]):
        return f"{wanted}: more than the PCs have"
    if not _fit(bundles, [pc.free for pc in pcs]):
        return f"{wanted}: not free now"
    return "Ray to start it"


def _fit(bundles: Sequence[Resources], pcs: Sequence[Resources]) -> bool:
    left = [dict(pc) for pc in pcs]
    for needs in bundles:
        for pc in left:
            # Ray counts in ten-thousandths.
            if all(pc.get(name, 0.0) > amount - 1e-4 for name, amount in needs.items()):
                for name, amount in needs.items():
                    pc[name] = pc.get(name, 0.0) - amount
                break
        else:
            return False
    return True


def _in_words(name: str, amount: float) -> str:
    """`2 CPU`, `0.5 GPU`, `8.5 GB memory`."""
    return f"{amount / GB:.3g} GB {name}" if "memory" in name else f"{amount:g} {name}"


def look(address: str) -> tuple[list[Use], list[str], list[Sequence[Resources]]]:
    """The PCs of a cluster, the head first; the addresses of those that are lost; and what each trial that
    waits needs, a bundle for each of its processes.

    Raises:
        UserError: no cluster answers, or its dashboard does not.
    """
    running_tasks: Any = [("state", "=", "RUNNING"), ("type", "=", "NORMAL_TASK")]
    with joined(address) as gcs:
        os.environ.pop("RAY_ADDRESS", None)  # by which `auto` was found; Ray's state API prefers it to `gcs`
        listed = nodes.listed()
        try:
            there = {node.node_id for node in state.list_nodes(gcs, limit=MOST)}
            if there.isdisjoint(node.id for node in listed):  # the dashboard of this PC's own Ray
                raise RayStateApiException
            actors = state.list_actors(gcs, filters=[("state", "=", "ALIVE")], limit=MOST, detail=True)
            tasks = state.list_tasks(gcs, filters=running_tasks, limit=MOST, detail=True)
            groups = state.list_placement_groups(gcs, limit=MOST, detail=True)
        except RayStateApiException:
            where = "it answers on the head alone, so type the command there"
            raise UserError(f"--address {address}: Ray's dashboard does not answer; {where}") from None
    pcs = {node.id: Use(node) for node in listed if node.is_alive}
    for group in groups:
        for bundle in group.bundles or () if group.state == "CREATED" else ():
            if (pc := pcs.get(bundle["node_id"])) is not None:
                pc.take(bundle["unit_resources"])
    processes: list[tuple[Any, str, int | None]] = [(each, _name_of(each), each.pid) for each in actors]
    processes += [(each, each.name.rpartition(".")[2], each.worker_pid) for each in tasks]
    for process, name, pid in processes:
        # One that takes nothing is what a sweep has beside its trials.
        if (pc := pcs.get(process.node_id)) and (process.placement_group_id or process.required_resources):
            if process.placement_group_id is None:  # else its group has taken them
                pc.take(process.required_resources)
            pc.processes.append((name, pid or 0))
    lost = {node.address for node in listed} - {pc.node.address for pc in pcs.values()}
    waiting = [group for group in groups if group.state in ("PENDING", "RESCHEDULING")]
    return (
        sorted(pcs.values(), key=lambda pc: (not pc.node.is_head, pc.node.address)),
        sorted(lost),
        [[bundle["unit_resources"] for bundle in group.bundles] for group in waiting if group.bundles],
    )


def _name_of(actor: Any) -> str:
    """What an actor says of itself, as those of a sweep do; else its class."""
    return str(actor.repr_name or actor.class_name.rpartition(".")[2])


def _about(pc: Use, trials: Mapping[tuple[str, int], str]) -> dict[str, Any]:
    """A PC for programs."""
    return {
        "address": pc.node.address,
        "hostname": pc.node.hostname,
        "is_head": pc.node.is_head,
        "has": {name: pc.node.has.get(name, 0.0) for name in SHOWN},
        "in_use": {name: pc.taken.get(name, 0.0) for name in SHOWN},
        "runs": [
            {"process": name, "pid": pid, "trial": trials.get((pc.node.hostname, pid))}
            for name, pid in pc.processes
        ],
    }


def _table(pcs: Sequence[Use], trials: Mapping[tuple[str, int], str]) -> Table:
    table = terminal.plain_table("pc", *(f"{name}s in use" for name in SHOWN), "runs")
    for pc in pcs:
        runs = [trials.get((pc.node.hostname, pid), f"{name} (process {pid})") for name, pid in pc.processes]
        used = [f"{pc.taken.get(name, 0):g} of {pc.node.has.get(name, 0):g}" for name in SHOWN]
        name = f"{pc.node.address} (head)" if pc.node.is_head else pc.node.address
        table.add_row(name, *used, ", ".join(sorted(runs)) or "nothing")
    return table


def _trials(folder: Path) -> dict[tuple[str, int], str]:
    """The trial that each process of a sweep trains, by host name and process id, from its last report."""
    try:
        record = Record.read(folder)
    except (OSError, RecordUnreadable) as error:
        raise UserError(str(error)) from None
    # A process whose trial is paused trains another one.
    training = [trial for trial in record.live if trial.place and not trial.is_paused]
    return {
        (each.place["pc"], each.place["pid"]): f"trial {each.number} (epoch {max(each.epochs, default=0)})"
        for each in training
    }
