"""The PCs of the cluster, as Ray lists them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import ray

from sweeps.common.formatting import GB

HEAD = "node:__internal_head__"
"""Ray's name of a resource that the head alone has."""


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


def listed() -> list[Node]:
    """The PCs of the cluster that this process is connected to, lost ones included."""
    names = ("NodeID", "NodeManagerHostname", "NodeManagerAddress", "Resources", "Alive")
    return [Node(*(node[name] for name in names)) for node in ray.nodes()]


def living() -> list[Node]:
    """The PCs of the cluster that are alive."""
    return [node for node in listed() if node.is_alive]
