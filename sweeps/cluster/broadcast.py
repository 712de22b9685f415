"""Ask all PCs of the cluster the same, at the same time: by a small task on each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.cluster import nodes
from sweeps.cluster.nodes import Node

TELL_S = 10.0
"""Between two lines that say for whom one waits."""


@dataclass(frozen=True)
class Answer:
    """Of a PC: what it said, or why it said nothing."""

    said: Any = None
    fault: str = ""
    is_there: bool = True
    """False: it has left meanwhile."""


def here() -> str:
    """The node on which this process runs."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def begin(of: Sequence[Node], question: Callable[..., Any], *arguments: Any) -> dict[Any, Node]:
    """Run a function on each PC, without any resource; what will be answered, to who does."""
    import ray

    task = ray.remote(question)
    return {
        task.options(num_cpus=0, max_retries=0, scheduling_strategy=on(node.id)).remote(*arguments): node
        for node in of
    }


def on(node: str) -> Any:
    """Says to Ray: on this PC and on no other."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def answers(asked: Mapping[Any, Node], timeout_s: float | None) -> dict[Node, Answer]:
    """What they said; a PC that says nothing in time is at fault. Who is waited for is said."""
    import ray

    ends_at = math.inf if timeout_s is None else time.monotonic() + timeout_s
    silent = list(asked)
    while silent:
        left_s = max(0.0, ends_at - time.monotonic())
        _, silent = ray.wait(silent, num_returns=len(silent), timeout=min(TELL_S, left_s))
        if left_s <= TELL_S:
            break
        if silent:
            print(f"Waiting for {', '.join(sorted(asked[one].name for one in silent))} ...", flush=True)
    found = {asked[one]: Answer(fault=f"no answer within {timeout_s:g} s") for one in silent}
    alive = {node.id for node in nodes.living()}
    for one in (one for one in asked if one not in silent):
        try:
            found[asked[one]] = Answer(ray.get(one))
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            found[asked[one]] = Answer(fault=reason, is_there=asked[one].id in alive)
    return found
