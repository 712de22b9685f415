"""The PCs of the cluster, as Ray lists them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sweeps.common.formatting import GB

HEAD = "node:__internal_head__"
"""Ray's name of what the head alone has."""


class PC(NamedTuple):
    """What a machine offers."""

    cpus: int
    gpus: int
    memory_gb: float = math.inf
    """That Ray gives to trials; inf where it has not been asked."""


@dataclass(frozen=True)
class Node:
    """A PC of the cluster, as Ray knows it."""

    id: str
    hostname: str
    address: str
    has: Mapping[str, float] = field(compare=False)
    """Ray's name of a resource to how much there is of it."""
    is_alive: bool = True

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.hostname} ({self.address})"

    @property
    def is_head(self) -> bool:
        """Whether the cluster ends without it."""
        return HEAD in self.has

    @property
    def offer(self) -> PC:
        """What trials may have of it."""
        memory_gb = self.has.get("memory", math.inf) / GB
        return PC(int(self.has.get("CPU", 0)), int(self.has.get("GPU", 0)), memory_gb)


def listed() -> list[Node]:
    """The PCs of the cluster that this process is connected to, and those that were."""
    import ray

    return [
        Node(
            node["NodeID"],
            node["NodeManagerHostname"],
            node["NodeManagerAddress"],
            node["Resources"],
            node["Alive"],
        )
        for node in ray.nodes()
    ]


def living() -> list[Node]:
    """Those that are there."""
    return [node for node in listed() if node.is_alive]
