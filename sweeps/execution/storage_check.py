"""Before a sweep starts: check that every PC can write checkpoints, and read those of other PCs."""

from __future__ import annotations

import platform
import uuid
from collections.abc import Sequence

from sweeps.common.errors import UserError
from sweeps.common.formatting import count
from sweeps.execution.faults.away_pcs import NOTHING_STARTS, leave_out_if_others_suffice
from sweeps.plan.plan import Plan
from sweeps.ray_cluster import broadcast
from sweeps.ray_cluster.membership import Membership
from sweeps.ray_cluster.nodes import Node
from sweeps.storage.protocol import Storage, StorageError, new_name


def on_this_pc(plan: Plan) -> None:
    """Make the sweep's folder in its storage, and check it from here, before anything starts.

    Raises:
        UserError: it can't be written or read, or has the checkpoints of another sweep of that name.
    """
    storage = plan.storage
    try:
        storage.make()
        fault = _fault(storage, "", "")
        taken = [] if fault or plan.config.resume is not None else storage.numbers()
    except OSError as error:
        fault, taken = str(error), []
    if fault:
        raise UserError(f"{_setting(plan)}: {platform.node()} can't use this storage: {fault}")
    if taken:
        raise UserError(
            f"--name {plan.config.name}: {storage.where} has checkpoints of {count(len(taken), 'trial')} "
            "already, of another sweep of that name; give another name, or remove them"
        )


def on_every_pc(plan: Plan, there: Sequence[Node], membership: Membership | None = None) -> None:
    """Check it from each PC that trains, at the same time. One that does not answer is left out.

    Raises:
        UserError: the PCs that can't use it, and why.
    """
    storage, name, text = plan.storage, new_name(), uuid.uuid4().hex
    try:
        storage.write_note(name, text)
    except OSError as error:
        raise UserError(f"{_setting(plan)}: {platform.node()} can't use this storage: {error}") from None
    answers = broadcast.ask(there, _fault, storage, name, text)
    faults = {
        node.name: fault
        for node, each in answers.items()
        if each.is_there and (fault := each.fault or each.value)
        if not (each.fault and membership and _is_left_out(plan, membership, node, each.fault))
    }
    try:
        storage.remove_note(name)
    except OSError as error:
        faults.setdefault(platform.node(), str(error))
    if faults:
        lines = "\n".join(f"  {pc}: {fault}" for pc, fault in sorted(faults.items()))
        raise UserError(
            f"{_setting(plan)}: {count(len(faults), 'PC')} of {len(answers)} can't use this storage:\n{lines}"
        )


def _is_left_out(plan: Plan, membership: Membership, node: Node, fault: str) -> bool:
    """Leave out a PC on which no process starts, where that is possible; whether it was."""
    reason = f"{NOTHING_STARTS}: {fault}"
    if notice := leave_out_if_others_suffice(plan.config, membership, node.id, reason):
        print(notice, flush=True)
    return bool(notice)


def _fault(storage: Storage, theirs: str, text: str) -> str:
    """What is wrong with a storage, seen from the PC that this runs on; "" where nothing is.

    Args:
        storage: of the sweep.
        theirs: name of a small file that another PC wrote, or "".
        text: its content.
    """
    mine, written = new_name(), uuid.uuid4().hex
    try:
        if theirs and storage.read_note(theirs) != text:
            return f"{storage.where}: that path is a different folder on that PC: share one folder"
        storage.write_note(mine, written)
        read = storage.read_note(mine)
        storage.remove_note(mine)
    except FileNotFoundError:
        return (
            f"a file that the first PC wrote to {storage.where} is not there: all PCs must see that folder; "
            "share it, or give --storage sftp://host/path or s3://bucket/prefix"
        )
    except StorageError as error:
        return str(error)
    except OSError as error:
        return f"{storage.where}: {error.strerror or error}"
    if read == written:
        return ""
    return f"{storage.where}: a file that was written there has other content when read back"


def _setting(plan: Plan) -> str:
    given = plan.config.storage
    return f"--results-dir {plan.config.results_dir}" if given is None else f"--storage {given}"
