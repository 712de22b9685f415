"""The PCs of a cluster: joined to look at them, as Ray lists them, small tasks and reports of each."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeps.common import gpus
from sweeps.common.errors import PCUnfit, UserError, first_line
from sweeps.common.formatting import GB
from sweeps.ray_start import ray_connection, ray_environment

HEAD = "node:__internal_head__"
"""Ray's name of a resource that the head alone has."""
ANSWER_S = 120.0
"""For the answer of a PC, by default."""
REPORTS_S = 4.0
"""For the reports of all. One that is late is told as such, and asked again."""
PROGRESS_EVERY_S = 10.0
PIECE_BYTES = 16 * 2**20
TOKEN_REFUSED = getattr(ray.exceptions, "AuthenticationError", ())
"""Ray 2.50 has no tokens, and so no such error."""
Report = dict[str, Any]
"""What a PC does now: its GPUs, who is on them, its processor and its memory, in values for JSON."""
ENDED_AT_ONCE = "its process ends at once (is the disk full, or the memory?)"


class PC(NamedTuple):
    """The resources of a PC."""

    cpus: int
    gpus: int
    memory_gb: float = math.inf
    """What Ray gives to trials; inf where Ray has not been asked."""


@dataclass(frozen=True)
class Node:
    """A PC of the cluster."""

    id: str
    """Ray's."""
    hostname: str
    address: str
    has: Mapping[str, float] = field(compare=False)
    """Amount of each resource, by Ray's names."""
    is_alive: bool = True

    @property
    def name(self) -> str:
        """`pc1 (10.0.0.1)`"""
        return f"{self.hostname} ({self.address})"

    @property
    def is_head(self) -> bool:
        """Whether the cluster ends with it."""
        return HEAD in self.has

    @property
    def offer(self) -> PC:
        """What trials may take of it."""
        memory_gb = self.has.get("memory", math.inf) / GB
        return PC(int(self.has.get("CPU", 0)), int(self.has.get("GPU", 0)), memory_gb)


@dataclass(frozen=True)
class Answer:
    """The result of a function on one PC."""

    value: Any = None
    fault: str = ""
    """Why there is no value."""
    is_there: bool = True
    """False where the PC has left the cluster since."""


@contextlib.contextmanager
def joined(address: str) -> Iterator[str]:
    """Be a part of the cluster; the address by which Ray's own clients reach its head.

    Raises:
        UserError: no cluster answers, or it does not accept the token of this PC.
    """
    ray_connection.refuse_silent(address)
    try:
        with ray_connection.quietly():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        yield ray.get_runtime_context().gcs_address
    except TOKEN_REFUSED as error:
        raise UserError(f"--address {address}: {first_line(error)} {ray_environment.COPY_TOKEN}") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"--address {address}: {ray_connection.why_not(error)}") from None
    finally:
        ray_connection.shut_down(ray)


def listed() -> list[Node]:
    """The PCs of the cluster that this process is connected to, lost ones included."""
    names = ("NodeID", "NodeManagerHostname", "NodeManagerAddress", "Resources", "Alive")
    return [Node(*(node[name] for name in names)) for node in ray.nodes()]


def living() -> list[Node]:
    """The PCs of the cluster that are alive."""
    return [node for node in listed() if node.is_alive]


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
    alive = {node.id for node in living()}
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


def report_here() -> Report:
    """That of this PC. The load of the processor is that since the last report of this process."""
    memory = psutil.virtual_memory()
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_percent": psutil.cpu_percent(),
        "memory_bytes": memory.total,
        "used_bytes": memory.total - memory.available,
        # All that it has, not only those that this process may use.
        "gpus": [asdict(card) for card in gpus.listed({gpus.ORDER: gpus.BY_PLACE})],
    }


def alone() -> list[Report]:
    """This PC, which is in no cluster."""
    return [{"hostname": socket.gethostname(), "address": "", "is_head": False, "report": report_here()}]


class Reporter:
    """The process on a PC that reports; it ends with the one that has started it."""

    def report(self) -> Report:
        """As `report_here`."""
        return report_here()


class Reporters:
    """Those of all PCs of the connected Ray, which take no resource."""

    def __init__(self) -> None:
        self._reporters: dict[str, Any] = {}
        """By Ray's id of the PC."""
        self._asked: dict[str, Any] = {}
        """The answers to come."""

    def pcs(self) -> Iterator[Report]:
        """Each PC, the head first, with its report where it has answered, and else with its `fault`."""
        there = {node.id: node for node in living()}
        for node in there.values():
            if node.id not in self._reporters:
                options = {"num_cpus": 0, "scheduling_strategy": on(node.id)}
                self._reporters[node.id] = ray.remote(Reporter).options(**options).remote()
            if node.id not in self._asked:
                self._asked[node.id] = self._reporters[node.id].report.remote()
        references = [self._asked[id_] for id_ in there]
        ray.wait(references, num_returns=len(references), timeout=REPORTS_S)
        for node in sorted(there.values(), key=lambda node: (not node.is_head, node.hostname, node.address)):
            about = {"hostname": node.hostname, "address": node.address, "is_head": node.is_head}
            offers = {name: node.has.get(name, 0.0) for name in ("CPU", "GPU")}
            yield {**about, "offers": offers, **self._answer(node.id)}

    def _answer(self, node: str) -> Report:
        if not ray.wait([self._asked[node]], timeout=0)[0]:
            return {"report": None, "fault": "it has not answered yet"}
        try:
            return {"report": ray.get(self._asked.pop(node)), "fault": ""}
        except ray.exceptions.RayError as error:
            if isinstance(error, ray.exceptions.RayActorError):  # the next look starts another one
                self._reporters.pop(node)
            return {"report": None, "fault": cause(error)}
