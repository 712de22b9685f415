"""Ray's own drain of a PC: no new work goes there, and Ray ends there once it has none left.

The one room that calls what Ray 2.60 does not call public: `ray drain-node` is hidden, and nothing public
says which PCs are being drained (ray-project/ray#42982: "the user is internal"; `scripts.drain_node` and
serve's `cluster_node_info_cache` call the same). Where another Ray lacks it, no PC is seen to leave, and a
drain is refused: nothing else of a sweep rests on it.
"""

from __future__ import annotations

import time
from typing import Any

from sweeps.common.errors import UserError

PREEMPTION = 2
"""`DRAIN_NODE_REASON_PREEMPTION`: taken although the PC is at work. The other reason is for idle ones."""


def leaving() -> dict[str, float]:
    """Ray's ids of the PCs that are being drained to when they shall be gone, as `time.time` has it; 0:
    whenever they are. That of `ray start --block` which was told to end is among them."""
    try:
        from ray._private.state import state

        found = state.get_draining_nodes()
    except (ImportError, AttributeError):
        return {}
    return {node: deadline_ms / 1000 for node, deadline_ms in found.items()}


def drain(gcs_address: str, node: str, timeout_s: float) -> None:
    """Begin to drain a PC, never the head: Ray takes that too, and no program can join any more.

    Raises:
        UserError: this Ray can't, it refuses, or it does not answer.
    """
    from ray.exceptions import RayError

    try:
        client = _client(gcs_address)
        deadline_ms = int((time.time() + timeout_s) * 1000)
        is_accepted, why = client.drain_node(node, PREEMPTION, "asked to leave", deadline_ms)
    except (ImportError, AttributeError, TypeError) as error:
        raise UserError(f"this Ray can't drain a PC ({error}): end Ray there, `ray stop`") from None
    except RayError as error:
        raise UserError(f"the head does not answer: {str(error).strip().splitlines()[-1]}") from None
    if not is_accepted:
        raise UserError(f"Ray refuses to drain it: {why}")


def is_there(gcs_address: str, node: str) -> bool:
    """Whether a PC is of the cluster still. Asked without joining: who has joined by a Ray that ends, ends
    with it."""
    from ray import NodeID

    info: Any = _client(gcs_address).get_all_node_info().get(NodeID.from_hex(node))
    return info is not None and info.state == 0  # GcsNodeInfo.ALIVE


def _client(gcs_address: str) -> Any:
    import ray

    return vars(ray)["_raylet"].GcsClient(address=gcs_address)
