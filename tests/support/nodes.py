"""Nodes as Ray lists them."""

from __future__ import annotations

from typing import Any

from sweeps.ray_cluster.cluster import Cluster
from sweeps.ray_cluster.nodes import HEAD, Node


def node(number: int, is_head: bool = False, **more: Any) -> Node:
    """As Ray lists it."""
    has = {"CPU": 2.0, "GPU": 1.0, **({HEAD: 1.0} if is_head else {})}
    about = {"id": f"id{number}", "hostname": f"pc{number}", "address": f"10.0.0.{number}", "has": has}
    return Node(**{**about, **more})


def cluster_of(*pcs: tuple[int, int], **more: Any) -> Cluster:
    """PCs with so many CPUs and GPUs each, which stay as they are."""
    there = [node(number, has={"CPU": cpus, "GPU": gpus}) for number, (cpus, gpus) in enumerate(pcs)]
    return Cluster(there, **more)
