"""What each PC does now: its GPUs, who is on them, its processor and its memory, in values for JSON."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import psutil
import ray

from sweeps.common import gpus
from sweeps.ray_cluster import nodes

ANSWER_S = 4.0
"""For the answer of a PC. One that is late is told as such, and asked again."""
Report = dict[str, Any]


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
        there = {node.id: node for node in nodes.living()}
        for node in there.values():
            if node.id not in self._reporters:
                options = {"num_cpus": 0, "scheduling_strategy": nodes.on(node.id)}
                self._reporters[node.id] = ray.remote(Reporter).options(**options).remote()
            if node.id not in self._asked:
                self._asked[node.id] = self._reporters[node.id].report.remote()
        references = [self._asked[id_] for id_ in there]
        ray.wait(references, num_returns=len(references), timeout=ANSWER_S)
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
            return {"report": None, "fault": nodes.cause(error)}
