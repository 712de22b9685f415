"""Join the Ray of this PC or a cluster. Imported after `ray_environment.prepare_environment`."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import ray

from sweeps.common import gpus as gpus_here
from sweeps.common import project
from sweeps.common.cli import terminal
from sweeps.common.errors import UserError
from sweeps.config.sweep_config import SweepConfig
from sweeps.ray_cluster import gpus as cluster_gpus
from sweeps.ray_cluster import neighbours, nodes, placement, ray_watch
from sweeps.ray_cluster.cluster import Cluster
from sweeps.ray_cluster.nodes import PC
from sweeps.ray_cluster.ray_environment import ENVIRONMENT
from sweeps.ray_start import ray_connection
from sweeps.ray_start.ray_folder import GCS, RAYLET
from sweeps.ray_start.shared_ray import SharedRay


@contextlib.contextmanager
def connect(
    config: SweepConfig, folder: Path, code: Sequence[Path], here: SharedRay | None
) -> Iterator[Cluster]:
    """Join the Ray of this PC, or the cluster at `config.address`, and leave it afterwards.

    Args:
        config: of the sweep.
        folder: of the sweep.
        code: packages and single files to send to the PCs of the cluster.
        here: the Ray of this PC, where no address is given.

    Raises:
        UserError: no cluster answers at the address, it does not take the code, no trial fits on its PCs, or
            others use its GPUs.
        CannotContinue: Ray does not start on this PC.
    """
    if here is not None:
        neighbours.refuse_overlap(config, here.ray_folder)
        neighbours.check_this_pc(config, here.ray_folder.process_ids())
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # each failure is in the record
    starting = f"Joining {config.address}" if here is None else here.step
    with terminal.step(starting), project.behind():  # Ray imports more of itself
        if here is None:
            context = ray_connection.join(ray, str(config.address), code, ENVIRONMENT, folder.name)
        else:
            here.name(folder.name, folder)
            context = ray_connection.join_here(ray, here.joined().address, here.python, folder.name)
    try:
        yield _joined(config, code, context.dashboard_url or None, here)
    finally:
        ray_connection.shut_down(ray)


def _joined(
    config: SweepConfig, code: Sequence[Path], dashboard_url: str | None, here: SharedRay | None
) -> Cluster:
    there = nodes.living()
    gpus = placement.gpus_per_trial(config, [node.offer for node in there])
    needed = cluster_gpus.needed_bytes(config, gpus)
    own = set() if here is None else here.ray_folder.process_ids()
    found = cluster_gpus.list_gpus_of_every_pc(there, own) if needed else {}
    there = [node for node in there if node in found] if needed else there
    small = cluster_gpus.too_small(needed, found)
    is_alone = config.address is None
    used = neighbours.of_every_pc(there) if gpus and not is_alone and not config.beside else {}
    out = {**{pc: f"{who}; --beside trains there, too" for pc, who in used.items()}, **small}
    if used and len(out) == len(there):
        raise UserError("\n".join(f"{pc.name}: {why}" for pc, why in out.items()))
    card_bytes = cluster_gpus.least_free_bytes(found, out)
    placement.slots(config, [node.offer for node in there if node not in out])
    if config.trials_per_gpu == "auto":  # a share is measured on the GPUs that are there now
        needed = max(needed, card_bytes)
    return Cluster(
        there,
        None if is_alone else nodes.living,
        {node.address: why for node, why in out.items()},
        check=functools.partial(cluster_gpus.fault_of_joining, needed),
        card_bytes=card_bytes,
        watch=None if here is None else ray_watch.RayWatch({n: here.joined().pids[n] for n in (RAYLET, GCS)}),
        how="" if here is None else here.how(),
        here=here,
        dashboard_url=dashboard_url,
        code=[] if is_alone else [path.name for path in code],
    )


def this_pc() -> PC:
    """CPU cores that this process may use, and GPUs, without taking memory on any."""
    gpus = 0
    if any(Path(device).exists() for device in gpus_here.DEVICES):
        import torch  # --dry-run on a PC without a GPU does without: a second

        gpus = torch.cuda.device_count()
    return PC(ray_connection.cpus(), gpus)
