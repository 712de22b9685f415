"""Start Ray on this PC or join a cluster. Imported after `ray_environment.prepare_environment`."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ray

from sweeps.common import project
from sweeps.common.formatting import count
from sweeps.config.sweep_config import SweepConfig
from sweeps.ray_cluster import gpus as cluster_gpus
from sweeps.ray_cluster import nodes as cluster_nodes
from sweeps.ray_cluster import placement, ray_watch
from sweeps.ray_cluster.membership import Membership
from sweeps.ray_cluster.nodes import PC, Node
from sweeps.ray_cluster.ray_environment import ENVIRONMENT
from sweeps.ray_cluster.ray_watch import RayWatch
from sweeps.ray_start import ray_auth, ray_connection

GPU_DEVICES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-gpu", "/dev/kfd")
"""PyTorch may find a GPU where one of these exists: NVIDIA's on Linux, in WSL and on a Jetson; AMD's."""


@dataclass(frozen=True)
class Cluster:
    """A connected Ray cluster."""

    pcs: tuple[PC, ...]
    dashboard_url: str | None
    code: tuple[str, ...] = ()
    """Packages and files that were sent to it."""
    too_small: Mapping[Node, str] = field(default_factory=dict)
    """Further PCs, which get no trials, and why."""
    card_bytes: float = 0
    """Memory that is free on each GPU of the others, at least; 0 where no PC was asked."""
    membership: Membership | None = None
    """None for a Ray on this PC alone."""
    watch: RayWatch = field(default_factory=RayWatch)
    """Of the Ray on this PC alone."""

    def nodes(self) -> list[Node]:
        """The PCs that train now."""
        if self.membership is None:
            return cluster_nodes.living()
        self.membership.look()
        return self.membership.nodes

    @property
    def pcs_now(self) -> Sequence[PC]:
        """Resources of the PCs that train now."""
        return self.pcs if self.membership is None else self.membership.pcs

    @property
    def closed(self) -> frozenset[str]:
        """Ray's ids of the PCs on which nothing may begin."""
        return frozenset() if self.membership is None else self.membership.closed

    @property
    def lost(self) -> str:
        """Why the Ray on this PC alone has ended too early; "" where it has not."""
        return self.watch.lost

    @property
    def size(self) -> str:
        """`2 PCs, 16 CPUs, 2 GPUs`"""
        cpus, gpus = sum(pc.cpus for pc in self.pcs), sum(pc.gpus for pc in self.pcs)
        return ", ".join((count(len(self.pcs), "PC"), count(cpus, "CPU"), count(gpus, "GPU")))

    def describe(self) -> str:
        """What was joined or started, and where its dashboard is."""
        hint = f" (enter the token in {ray_auth.place()})" if ray_auth.is_on() else ""
        pages = f"; its dashboard: http://{self.dashboard_url}{hint}" if self.dashboard_url else ""
        lines = [f"ray        {self.size}{pages}"]
        if self.code:
            lines.append(f"code       {', '.join(self.code)}: the current version is sent to every PC")
        lines += [f"left out   {node.name}: {why}" for node, why in self.too_small.items()]
        if not ray_auth.is_on():
            lines.append(f"warning    {ray_auth.RISK}")
        return "\n".join(lines) + "\n"


@contextlib.contextmanager
def connect(config: SweepConfig, code: Sequence[Path], python: str | None) -> Iterator[Cluster]:
    """Start a Ray on this PC and end it afterwards, or join the cluster at `config.address` and leave it.

    Args:
        config: of the sweep.
        code: packages and single files to send to the PCs of the cluster.
        python: command by which a Ray on this PC starts the processes of trials, if that is not this Python.

    Raises:
        UserError: no cluster answers at the address, it does not take the code, or no trial fits on its PCs.
        CannotContinue: Ray does not start on this PC.
    """
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # each failure is in the record
    with project.behind():  # Ray imports more of itself
        if config.address is None:
            context = ray_connection.start(ray, dashboard=config.ray_dashboard, python=python)
        else:
            context = ray_connection.join(ray, config.address, code, ENVIRONMENT)
    try:
        yield _joined(config, code, context.dashboard_url or None)
    finally:
        ray_connection.shut_down(ray)


def _joined(config: SweepConfig, code: Sequence[Path], dashboard_url: str | None) -> Cluster:
    there = cluster_nodes.living()
    gpus = placement.gpus_per_trial(config, [node.offer for node in there])
    needed = cluster_gpus.needed_bytes(config, gpus)
    found = cluster_gpus.list_gpus_of_every_pc(there) if needed else {}
    there = [node for node in there if node in found] if needed else there
    small = cluster_gpus.too_small(needed, found)
    card_bytes = cluster_gpus.least_free_bytes(found, small)
    pcs = tuple(node.offer for node in there if node not in small)
    placement.slots(config, pcs)
    if config.address is None:
        return Cluster(pcs, dashboard_url, (), small, card_bytes, watch=ray_watch.watch_started())
    if config.trials_per_gpu == "auto":  # a share is measured on the GPUs that are there now
        needed = max(needed, card_bytes)
    left_out = {node.address: why for node, why in small.items()}
    check = functools.partial(cluster_gpus.fault_of_joining, needed)
    membership = Membership(there, cluster_nodes.living, left_out, check=check)
    return Cluster(pcs, dashboard_url, tuple(path.name for path in code), small, card_bytes, membership)


def this_pc() -> PC:
    """CPU cores that this process may use, and GPUs, without taking memory on any."""
    gpus = 0
    if any(Path(device).exists() for device in GPU_DEVICES):
        import torch  # --dry-run on a PC without a GPU does without: a second

        gpus = torch.cuda.device_count()
    return PC(ray_connection.cpus(), gpus)
