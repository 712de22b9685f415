"""`sweeps pcs drain [PC]`: take a PC out of the running cluster.

Its trials write a checkpoint at the end of the current epoch and move to other PCs; a trial whose epoch takes
longer than --timeout-s continues from its last checkpoint. Then Ray stops on the PC.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from sweeps.common.cli import json_output
from sweeps.common.errors import UserError
from sweeps.common.formatting import command, count, duration
from sweeps.common.yaml_values import nearest
from sweeps.pcs import back
from sweeps.ray_cluster import nodes, ray_internals
from sweeps.ray_cluster.nodes import Node, joined

GRACE_S = 15.0
"""For what a sweep ends at the deadline, and for the last processes of Ray."""


def run(address: str, pc: str | None, timeout_s: float) -> int:
    """The command; its exit status.

    Raises:
        UserError: no cluster answers, the PC is not part of it, or is its head.
    """
    with joined(address) as gcs:
        here = nodes.here()
        node = choose(nodes.living(), pc, here)
        json_output.answer(pc=node.hostname, address=node.address, has_left=False)
        _begin(gcs, node, timeout_s)
    is_here = node.id == here
    began = time.monotonic()
    while ray_internals.is_in_cluster(gcs, node.id):
        if time.monotonic() > began + timeout_s + GRACE_S:
            print(f"After {duration(time.monotonic() - began)} the PC is still part of the cluster.")
            print(
                f"Ray stops there once its work is done; on the head, `{command('pcs', 'status')}` shows it."
            )
            return 1
        time.sleep(0.3)
    if is_here:
        _wait_for_processes()
        back.stop_unit()
    seconds = time.monotonic() - began
    json_output.answer(has_left=True, seconds=seconds)
    print(f"{node.hostname} has left, after {duration(seconds)}.")
    print(f"To bring it back{'' if is_here else f', on {node.hostname}'}: {command('pcs', 'back')}")
    return 0


def _begin(gcs: str, node: Node, timeout_s: float) -> None:
    """Begin to drain a PC, and keep the head from starting Ray there again."""
    print(f"Draining {node.name} ...", flush=True)
    if not _done_on(node, back.stay_away):
        print(
            f"{node.hostname} does not answer. If it is one of worker_ips, the head starts Ray there again."
        )
    try:
        ray_internals.drain_node(gcs, node.id, timeout_s)
    except BaseException:  # Ctrl-C, too: the PC was not drained
        _done_on(node, back.remove_mark)
        raise


def choose(living: Sequence[Node], pc: str | None, here: str) -> Node:
    """The PC of a name or an address, or the one whose id is `here`.

    Raises:
        UserError: there is none, there are several, or it is the head.
    """
    if pc is None:
        found = [node for node in living if node.id == here]
    else:
        found = [node for node in living if pc in (node.hostname, node.address)]
    if not found:
        there = ", ".join(sorted(node.hostname for node in living))
        names = sorted({name for node in living for name in (node.hostname, node.address)})
        raise UserError(f"{pc}: no PC of the cluster. Choices: {there}.{nearest(str(pc), names)}")
    if len(found) > 1:
        addresses = ", ".join(sorted(node.address for node in found))
        raise UserError(f"{pc}: {count(len(found), 'PC')} have that name; give an address of {addresses}")
    if found[0].is_head:
        raise UserError(
            f"{found[0].hostname} is the head, and the cluster ends with it: give another PC, or end all "
            f"with `{command('pcs', 'down')}`"
        )
    return found[0]


def _done_on(node: Node, action: Callable[[], None]) -> bool:
    """Whether an action was done on a PC: by a small task, where it is another one."""
    if node.id == nodes.here():
        action()
        return True
    return not nodes.ask([node], action)[node].fault


def _wait_for_processes() -> None:
    """The cluster counts this PC as gone some seconds before its last process ends."""
    ends_at = time.monotonic() + GRACE_S  # those of another Ray on this PC stay
    while time.monotonic() < ends_at and any(map(_is_of_ray, psutil.process_iter(["cmdline"]))):
        time.sleep(0.2)


def _is_of_ray(process: psutil.Process) -> bool:
    """Whether it is Ray's daemon or one of its workers, whose titles are as `ray::IDLE`."""
    words = process.info["cmdline"] or [""]  # a process that has ended, but was not waited for, has none
    return words[0].startswith("ray::") or Path(words[0]).name == "raylet"
