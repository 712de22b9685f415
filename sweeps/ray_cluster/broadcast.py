"""Work on other PCs of the cluster: a function on each of them as a small Ray task, and a file of one."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeps.common.errors import PCUnfit
from sweeps.ray_cluster import nodes
from sweeps.ray_cluster.nodes import Node

ANSWER_S = 120.0
"""For the answer of a PC, by default."""
PROGRESS_EVERY_S = 10.0
PIECE_BYTES = 16 * 2**20
ENDED_AT_ONCE = "its process ends at once (is the disk full, or the memory?)"


@dataclass(frozen=True)
class Answer:
    """The result of a function on one PC."""

    value: Any = None
    fault: str = ""
    """Why there is no value."""
    is_there: bool = True
    """False where the PC has left the cluster since."""


def here() -> str:
    """Ray's id of the PC on which this process runs."""
    return str(ray.get_runtime_context().get_node_id())


def ask(
    of: Sequence[Node], function: Callable[..., Any], *arguments: Any, timeout_s: float | None = ANSWER_S
) -> dict[Node, Answer]:
    """The results of a function on each PC, without taking any resource."""
    return answers(begin(of, function, *arguments), timeout_s)


def begin(of: Sequence[Node], function: Callable[..., Any], *arguments: Any) -> dict[Any, Node]:
    """Start a function on each PC; a Ray reference for each PC."""
    return {begin_on(node.id, function, *arguments): node for node in of}


def begin_on(node: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Start a function on the PC of this id of Ray's; a Ray reference to its result."""
    task = ray.remote(function).options(num_cpus=0, max_retries=0, scheduling_strategy=on(node))
    return task.remote(*arguments)


def read_file(node: str, holder: str, path: Path, size_bytes: int) -> Iterator[Any]:
    """The content of a file on the PC of this id of Ray's, in pieces. The next one is on its way meanwhile.

    Args:
        node: the id.
        holder: name of that PC and what it has, for the message.
        path: of the file, there.
        size_bytes: of the file.

    Raises:
        PCUnfit: that PC does not answer, or lacks the file.
    """
    task = ray.remote(_piece).options(num_cpus=0, scheduling_strategy=on(node))
    pieces = deque[Any]()
    try:
        for offset in range(0, size_bytes, PIECE_BYTES):
            pieces.append(task.remote(path, offset))
            if len(pieces) == 2:
                yield ray.get(pieces.popleft(), timeout=300)
        yield from (ray.get(last, timeout=300) for last in pieces)
    except ray.exceptions.RayError as error:
        raise PCUnfit(f"{holder} does not answer: {cause(error)}") from None


def _piece(path: Path, offset: int) -> Any:
    return np.fromfile(path, np.uint8, PIECE_BYTES, offset=offset)  # Ray passes arrays on without a copy


def on(node: str) -> NodeAffinitySchedulingStrategy:
    """Ray's scheduling option for the PC of this id alone."""
    return NodeAffinitySchedulingStrategy(node, soft=False)


def answers(tasks: Mapping[Any, Node], timeout_s: float | None = ANSWER_S) -> dict[Node, Answer]:
    """The results of what `begin` started. A wait of more than 10 s names the PCs that have not answered."""
    ends_at = math.inf if timeout_s is None else time.monotonic() + timeout_s
    silent = list(tasks)
    while silent:
        left_s = max(0.0, ends_at - time.monotonic())
        _, silent = ray.wait(silent, num_returns=len(silent), timeout=min(PROGRESS_EVERY_S, left_s))
        if left_s <= PROGRESS_EVERY_S:
            break
        if silent:
            print(f"Waiting for {', '.join(sorted(tasks[one].name for one in silent))} ...", flush=True)
    found = {tasks[one]: Answer(fault=f"no answer within {timeout_s:g} s") for one in silent}
    alive = {node.id for node in nodes.living()}
    for one in (one for one in tasks if one not in silent):
        try:
            found[tasks[one]] = Answer(ray.get(one))
        except ray.exceptions.RayError as error:
            found[tasks[one]] = Answer(fault=cause(error), is_there=tasks[one].id in alive)
    return found


def cause(error: Exception) -> str:
    """The last line of an error of Ray's, which says what was wrong on the other PC."""
    if isinstance(error, ray.exceptions.WorkerCrashedError):
        return ENDED_AT_ONCE
    line = str(error).strip().splitlines()[-1]
    return f"{line} (is it installed on every PC?)" if "ModuleNotFoundError: " in line else line
