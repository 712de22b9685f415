"""Join the Ray of this PC or a cluster. Imported after `ray_environment.set_environment`.

Other people and programs on the GPUs of a sweep are found before it starts, so that none tramples another. A
process of this sweep's own Ray is none of them: Ray gives each GPU to one of its sweeps at a time.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import ray

from sweeps.common import gpus as gpus_here
from sweeps.common import project
from sweeps.common.cli import terminal
from sweeps.common.errors import UserError
from sweeps.common.gpus import Card
from sweeps.config.sweep_config import SweepConfig
from sweeps.ray_cluster import gpus as cluster_gpus
from sweeps.ray_cluster import nodes, placement
from sweeps.ray_cluster.cluster import Cluster, RayWatch
from sweeps.ray_cluster.nodes import PC, Answer, Node
from sweeps.ray_cluster.places.shared_sweeps import this_user
from sweeps.ray_start import ray_connection, ray_environment
from sweeps.ray_start.ray_environment import ENVIRONMENT
from sweeps.ray_start.ray_folder import GCS, HOLDER, RAYLET, RayFolder, listed, ray_folders
from sweeps.ray_start.shared_ray import SharedRay

OF_RAY, IDLE = "ray::", "ray::IDLE"
"""Beginnings of the names that Ray gives to processes that work for somebody, and to those that wait."""


@contextlib.contextmanager
def connect(
    config: SweepConfig, folder: Path, code: Sequence[Path], here: SharedRay | None
) -> Iterator[Cluster]:
    """Join the Ray of this PC, or the cluster at `config.address`, say what it has, and leave it afterwards.
    The PCs of a cluster get the code, packages and single files.

    Raises:
        UserError: no cluster answers at the address, it does not take the code, no trial fits on its PCs, or
            others use its GPUs.
        CannotContinue: Ray does not start on this PC.
    """
    if here is not None:
        refuse_overlap(config, here.ray_folder)
        check_this_pc(config, here.ray_folder.process_ids())
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # each failure is in the record
    starting = f"Joining {config.address}" if here is None else here.step
    with terminal.step(starting), project.behind():  # Ray imports more of itself
        if here is None:
            context = ray_connection.join(ray, str(config.address), code, ENVIRONMENT, folder.name)
        else:
            here.name(folder.name, folder)
            context = ray_connection.join_here(ray, here.joined().address, here.python, folder.name)
    try:
        cluster = _joined(config, here)
        terminal.say(_describe(cluster, [] if cluster.is_alone else code, context.dashboard_url))
        yield cluster
    finally:
        ray_connection.shut_down(ray)


def _joined(config: SweepConfig, here: SharedRay | None) -> Cluster:
    there = nodes.living()
    gpus = placement.gpus_per_trial(config, [node.offer for node in there])
    needed = cluster_gpus.needed_bytes(config, gpus)
    found = _cards(there, needed, here)
    there = [node for node in there if node in found] if needed else there
    small = cluster_gpus.too_small(needed, found)
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
        None if config.address is None else nodes.living,
        {node.address: why for node, why in out.items()},
        check=fault_of_joining,
        card_bytes=card_bytes,
        watch=None if here is None else RayWatch({n: here.joined().pids[n] for n in (RAYLET, GCS)}),
        here=here,
    )


def _cards(there: Sequence[Node], needed: float, here: SharedRay | None) -> dict[Node, Answer]:
    """The GPUs of each PC, where trials need so much memory of one; {} where they need none."""
    own = set() if here is None else here.ray_folder.process_ids()
    return cluster_gpus.list_gpus_of_every_pc(there, own) if needed else {}


def _describe(cluster: Cluster, code: Sequence[Path], dashboard_url: str) -> str:
    """What was joined or started, the code that was sent to its PCs, and where its dashboard is."""
    how = "" if cluster.here is None else cluster.here.how()
    hint = (
        f" (enter the token in {ray_environment.token_place()})" if ray_environment.requires_token() else ""
    )
    pages = f"; its dashboard: http://{dashboard_url}{hint}" if dashboard_url else ""
    lines = [f"ray        {cluster.size}{how and f'; {how}'}{pages}"]
    if code:
        names = ", ".join(path.name for path in code)
        lines.append(f"code       {names}: the current version is sent to every PC")
    why = {node.name: cluster.left_out.get(node.address) for node in cluster.there}
    lines += [f"left out   {name}: {reason}" for name, reason in why.items() if reason]
    if not ray_environment.requires_token():
        lines.append(f"warning    {ray_environment.NO_TOKEN_RISK}")
    return "\n".join(lines) + "\n"


def _used_by_others(config: SweepConfig, there: Sequence[Node], gpus: float) -> dict[Node, str]:
    """The PCs of a cluster that get no trials for the sake of others on their GPUs, and why."""
    if not gpus or config.address is None or config.beside:
        return {}
    used = cluster_gpus.used_by_others(there)
    return {pc: f"{who}; --beside trains there, too" for pc, who in used.items()}


def measure_again(
    config: SweepConfig, cluster: Cluster, gpus: float, say: Callable[[str], None]
) -> list[str]:
    """Measure the GPUs for a sweep of the queue whose turn has come: their free memory, and on which PCs of a
    cluster others are, which are then left out.

    Returns:
        Who is where, a line for each PC, where the others have no room for a trial; else [].
    """
    cluster.take_back_used()
    there = cluster.nodes()
    used = _used_by_others(config, there, gpus)
    if used and not placement.most(config, [node.offer for node in there if node not in used], gpus):
        return [f"{node.name}: {why}" for node, why in used.items()]
    found = _cards(there, cluster_gpus.needed_bytes(config, gpus), cluster.here)
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


def refuse_beside(cards: Sequence[Card], own: Collection[int] = ()) -> None:
    """Refuse to start beside others on the GPUs of this PC.

    Raises:
        UserError: some are used by others; the text says what can be done.
    """
    if not (found := gpus_here.lines(cards, own)):
        return
    free = [str(card.index) for card in cards if not card.neighbours(own)]
    other = f"--gpus {','.join(free)} uses {'the other one' if len(free) == 1 else 'the others'}, "
    is_one = len(found) == 1
    raise UserError(
        f"{'; '.join(found)}: --queue waits until {'it is' if is_one else 'they are'} free, "
        f"{other if free else ''}--beside runs beside {'it' if is_one else 'them'}"
    )


def check_this_pc(config: SweepConfig, own: Collection[int]) -> None:
    """Look who else is on this PC, before a sweep starts there; print whose trials train beside it. The
    process ids `own` are of one's own Ray and of those that use it.

    Raises:
        UserError: others are on its GPUs, and it is not to run beside them.
    """
    if not config.beside and not config.queue:  # which waits for them
        refuse_beside(gpus_of(config), own)
    if line := trials_of_others():
        print(line, flush=True)


def refuse_overlap(config: SweepConfig, mine: RayFolder) -> None:
    """Refuse to start where another Ray of this user has some of the same GPUs, and sweeps: each would give
    them to its own trials.

    Raises:
        UserError: there is one.
    """
    cards = {} if config.beside or config.queue else {card.uuid: card for card in gpus_of(config)}
    for ray_folder in ray_folders() if cards else ():
        if ray_folder.folder == mine.folder or not (users := ray_folder.users()):
            continue
        state = ray_folder.state()
        try:
            variables = psutil.Process(state.pids[HOLDER]).environ() if state is not None else None
        except psutil.Error:  # it has just ended
            continue
        theirs = [] if variables is None else gpus_here.listed(variables)
        if shared := [card for card in theirs if card.uuid in cards]:
            numbers = ", ".join(str(card.index) for card in shared)
            both = {card.uuid for card in shared}
            free = [str(card.index) for card in cards.values() if card.uuid not in both]
            others = f", choose others (--gpus {','.join(free)})" if free else ""
            raise UserError(
                f"GPU{'s' * (len(shared) > 1)} {numbers}: {listed(users)} may use it, too, by another choice "
                "of GPUs, and both would train on it. To share its GPUs, type the command "
                f"{_choice_of(variables or {})}{others}, or train beside it (--beside)"
            )


def _choice_of(variables: Mapping[str, str]) -> str:
    """How a Ray with these variables is joined."""
    named = variables.get(gpus_here.VISIBLE)
    if named is None:
        return f"without --gpus, and with {gpus_here.VISIBLE} unset"
    is_typed = variables.get(gpus_here.ORDER) == gpus_here.BY_PLACE
    return f"with --gpus {named}" if is_typed else f"without --gpus, and with {gpus_here.VISIBLE}={named}"


def gpus_of(config: SweepConfig) -> list[Card]:
    """The GPUs of this PC that a sweep may use which joins no cluster; [] where its trials take none.

    A program that runs the sweep, such as a notebook, is no other one.
    """
    cards = gpus_here.listed(os.environ)
    if not placement.gpus_per_trial(config, [PC(0, len(cards))]):
        return []
    mine = {each.pid for each in psutil.Process().parents()}
    return [
        replace(card, processes=tuple(each for each in card.processes if each.pid not in mine))
        for card in cards
    ]


def trials_of_others() -> str:
    """A line about the processes of other people's Ray on this PC; "" where there are none."""
    found = Counter[str]()
    for process in psutil.process_iter(["username", "cmdline"]):
        title = next(iter(process.info["cmdline"] or ()), "")
        if title.startswith(OF_RAY) and not title.startswith(IDLE):
            found[process.info["username"] or "unknown"] += 1
    found.pop(this_user(), None)
    who = (f"{name} ({number} process{'es' * (number > 1)})" for name, number in sorted(found.items()))
    return f"beside     Ray of other users runs on this PC, too: {', '.join(who)}" if found else ""
