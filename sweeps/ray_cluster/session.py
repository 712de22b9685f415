"""Start Ray on this PC or join a cluster. Imported after `ray_environment.prepare_environment`."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import ray

from sweeps.common import project
from sweeps.common.cli import terminal
from sweeps.common.imports import missing
from sweeps.config.sweep_config import SweepConfig
from sweeps.ray_cluster import gpus as cluster_gpus
from sweeps.ray_cluster import nodes, placement, ray_watch
from sweeps.ray_cluster.cluster import Cluster
from sweeps.ray_cluster.nodes import PC
from sweeps.ray_cluster.ray_environment import ENVIRONMENT
from sweeps.ray_start import ray_connection

GPU_DEVICES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-gpu", "/dev/kfd")
"""PyTorch may find a GPU where one of these exists: NVIDIA's on Linux, in WSL and on a Jetson; AMD's."""


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
    starting = "Starting Ray" if config.address is None else f"Joining {config.address}"
    with terminal.step(starting), project.behind():  # Ray imports more of itself
        if config.address is None:
            has_dashboard = config.ray_dashboard and not missing("aiohttp_cors", "dashboard")
            context = ray_connection.start(ray, dashboard=has_dashboard, python=python)
        else:
            context = ray_connection.join(ray, config.address, code, ENVIRONMENT)
    try:
        yield _joined(config, code, context.dashboard_url or None)
    finally:
        ray_connection.shut_down(ray)


def _joined(config: SweepConfig, code: Sequence[Path], dashboard_url: str | None) -> Cluster:
    there = nodes.living()
    gpus = placement.gpus_per_trial(config, [node.offer for node in there])
    needed = cluster_gpus.needed_bytes(config, gpus)
    found = cluster_gpus.list_gpus_of_every_pc(there) if needed else {}
    there = [node for node in there if node in found] if needed else there
    small = cluster_gpus.too_small(needed, found)
    card_bytes = cluster_gpus.least_free_bytes(found, small)
    placement.slots(config, [node.offer for node in there if node not in small])
    is_alone = config.address is None
    if config.trials_per_gpu == "auto":  # a share is measured on the GPUs that are there now
        needed = max(needed, card_bytes)
    return Cluster(
        there,
        None if is_alone else nodes.living,
        {node.address: why for node, why in small.items()},
        check=functools.partial(cluster_gpus.fault_of_joining, needed),
        card_bytes=card_bytes,
        watch=ray_watch.watch_started() if is_alone else None,
        dashboard_url=dashboard_url,
        code=[] if is_alone else [path.name for path in code],
    )


def this_pc() -> PC:
    """CPU cores that this process may use, and GPUs, without taking memory on any."""
    gpus = 0
    if any(Path(device).exists() for device in GPU_DEVICES):
        import torch  # --dry-run on a PC without a GPU does without: a second

        gpus = torch.cuda.device_count()
    return PC(ray_connection.cpus(), gpus)
