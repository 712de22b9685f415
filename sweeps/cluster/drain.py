"""Ray's own drain of a PC: the PC gets no new work, and Ray stops there once its work is done.

The only module that uses what Ray 2.60 does not document: nothing public lists the PCs that are being drained
(ray-project/ray#42982; `scripts.drain_node` and serve's `cluster_node_info_cache` make the same calls). With
a Ray that lacks them no PC is seen to leave and a drain is refused; no other part of a sweep depends on it.
"""

from __future__ import annotations

import time
from typing import Any

import ray
from ray._private import state as ray_state
from ray.exceptions import RayError

from sweeps.common.errors import UserError

PREEMPTION = 2
"""`DRAIN_NODE_REASON_PREEMPTION`: accepted although the PC is busy. The other reason is for idle PCs."""


def leaving() -> dict[str, float]:
    """Ray's ids of the PCs that are being drained, each with its deadline as `time.time` has it, 0 for none.

    A PC whose `ray start --block` was ended is among them.
    """
    try:
        found = ray_state.state.get_draining_nodes()
    except AttributeError:
        return {}
    return {node: deadline_ms / 1000 for node, deadline_ms in found.items()}


def drain(gcs_address: str, node: str, timeout_s: float) -> None:
    """Begin to drain a PC. Never the head: Ray accepts that too, and then no program can join.

    Raises:
        UserError: this Ray can't drain, it refuses, or it does not answer.
    """
    deadline_ms = int((time.time() + timeout_s) * 1000)
    try:
        is_accepted, reason = _client(gcs_address).drain_node(node, PREEMPTION, "asked to leave", deadline_ms)
    except (AttributeError, TypeError) as error:
        raise UserError(f"this version of Ray can't drain a PC ({error}): type `ray stop` there") from None
    except RayError as error:
        raise UserError(f"the head does not answer: {str(error).strip().splitlines()[-1]}") from None
    if not is_accepted:
        raise UserError(f"Ray refuses to drain it: {reason}")


def is_there(gcs_address: str, node: str) -> bool:
    """Whether a PC is still in the cluster. This process is no part of it: Ray on this PC may be ending."""
    info: Any = _client(gcs_address).get_all_node_info().get(ray.NodeID.from_hex(node))
    return info is not None and info.state == 0  # GcsNodeInfo.ALIVE


def _client(gcs_address: str) -> Any:
    return vars(ray)["_raylet"].GcsClient(address=gcs_address)
