"""Join the Ray of this PC or a cluster. Imported after `ray_environment.prepare_environment`."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
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
from sweeps.ray_cluster.nodes import PC, Node
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
    used = {} if config.queue else _used_by_others(config, there, gpus)  # which waits for them
    out = {**used, **small}
    if used and len(out) == len(there):
        raise UserError("\n".join(f"{pc.name}: {why}" for pc, why in out.items()))
    card_bytes = cluster_gpus.least_free_bytes(found, out)
    placement.slots(config, [node.offer for node in there if node not in out])
    is_measured = config.trials_per_gpu == "auto"  # a share, on the GPUs that are there now

    def fault_of_joining(node: Node, card_bytes: float) -> str | None:
        return cluster_gpus.fault_of_joining(max(needed, card_bytes) if is_measured else needed, node)

    return Cluster(
        there,
        None if is_alone else nodes.living,
        {node.address: why for node, why in out.items()},
        check=fault_of_joining,
        card_bytes=card_bytes,
        watch=None if here is None else ray_watch.RayWatch({n: here.joined().pids[n] for n in (RAYLET, GCS)}),
        how="" if here is None else here.how(),
        here=here,
        dashboard_url=dashboard_url,
        code=[] if is_alone else [path.name for path in code],
    )


def _used_by_others(config: SweepConfig, there: Sequence[Node], gpus: float) -> dict[Node, str]:
    """The PCs of a cluster that get no trials for the sake of others on their GPUs, and why."""
    if not gpus or config.address is None or config.beside:
        return {}
    used = neighbours.of_every_pc(there)
    return {pc: f"{who}; --beside trains there, too" for pc, who in used.items()}


def measure_again(
    config: SweepConfig, cluster: Cluster, gpus: float, say: Callable[[str], None]
) -> list[str]:
    """Measure the GPUs for a sweep of the queue whose turn has come: their free memory, and on which PCs of a
    cluster others are, which are then left out.

    Args:
        config: of the sweep.
        cluster: of it, which is renewed.
        gpus: that a trial takes.
        say: prints a line.

    Returns:
        Who is where, a line for each PC, where the others have no room for a trial; else [].
    """
    cluster.take_back_used()
    there = cluster.nodes()
    used = _used_by_others(config, there, gpus)
    if used and not placement.most(config, [node.offer for node in there if node not in used], gpus):
        return [f"{node.name}: {why}" for node, why in used.items()]
    own = set() if cluster.here is None else cluster.here.ray_folder.process_ids()
    needed = cluster_gpus.needed_bytes(config, gpus)
    found = cluster_gpus.list_gpus_of_every_pc(there, own) if needed else {}
    cluster.leave_out_used(used, cluster_gpus.least_free_bytes(found, used))
    for node, why in used.items():
        say(f"{node.name} gets no trials in this run: {why}")
    return []


def this_pc() -> PC:
    """CPU cores that this process may use, and GPUs, without taking memory on any."""
    gpus = 0
    if any(Path(device).exists() for device in gpus_here.DEVICES):
        import torch  # --dry-run on a PC without a GPU does without: a second

        gpus = torch.cuda.device_count()
    return PC(ray_connection.cpus(), gpus)
