"""The GPUs that trials may use, as NVIDIA's driver lists them; a PC with too small ones gets no trials."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import ray

from sweeps.common import gpus
from sweeps.common.errors import UserError
from sweeps.common.formatting import GB, size
from sweeps.common.gpus import Card
from sweeps.config.sweep_config import SweepConfig
from sweeps.ray_cluster import nodes, ray_internals
from sweeps.ray_cluster.nodes import ANSWER_S, Answer, Node

LEAST_BYTES = 1
"""Any GPU whose memory size is known."""


def list_gpus() -> list[Card]:
    """The GPUs of this PC that Ray may use there."""
    return gpus.listed(ray_internals.variables_of_this_pc())


def own_processes() -> set[int]:
    """Process ids on this PC of the Ray of this task, each with all that it has started."""
    raylet = os.environ.get("RAY_RAYLET_PID")
    return set() if raylet is None else {int(raylet)}


def gpus_for_trials(of_sweeps: Collection[int] = ()) -> list[Card]:
    """The GPUs of this PC. What processes of this Ray hold of them, and of the sweeps that use it, is not
    used: Ray gives a GPU to one after another."""
    own, cards = own_processes() | {*of_sweeps}, list_gpus()
    return [
        replace(card, used_bytes=max(0, card.used_bytes - card.held_bytes(own)), processes=())
        for card in cards
    ]


def list_gpus_of_every_pc(there: Sequence[Node], of_sweeps: Collection[int] = ()) -> dict[Node, Answer]:
    """The GPUs of each PC, or why they are not known; without PCs that have left since.

    Args:
        there: the PCs.
        of_sweeps: on this PC alone, process ids of the sweeps that share its Ray: Ray has not started all
            processes of their trials itself.
    """
    answers = nodes.ask(there, gpus_for_trials, of_sweeps)
    return {node: answer for node, answer in answers.items() if answer.is_there}


def used_by_others(there: Sequence[Node]) -> dict[Node, str]:
    """The PCs of a cluster on whose GPUs other people and programs are, and who."""
    answers = nodes.ask(there, _others_here)
    return {pc: "; ".join(answer.value) for pc, answer in answers.items() if answer.value}


def _others_here() -> list[str]:
    return gpus.lines(list_gpus(), own_processes())


def fault_of_joining(needed: float, node: Node) -> str | None:
    """Why no trial may be placed on a PC that joins, by the bytes of memory that a GPU needs (0: no trial
    takes one); "" where trials may; None where it has not answered yet, or has left meanwhile. It does not
    wait: the first call asks the PC, and a later one has the answer."""
    if not needed:
        return ""
    since, task = _asked(node.id)
    if ray.wait([task], timeout=0)[0]:
        answer = nodes.answers({task: node})[node]
        return _fault(needed, answer) if answer.is_there else None
    is_late = time.monotonic() > since + ANSWER_S
    return _fault(needed, Answer(fault=f"no answer within {ANSWER_S:g} s")) if is_late else None


@functools.cache  # Ray gives a PC that joins again another id, so each is asked once
def _asked(node: str) -> tuple[float, Any]:
    """When the PC of this id was asked for its GPUs, and the Ray reference to its answer."""
    return time.monotonic(), nodes.begin_on(node, gpus_for_trials)


def needed_bytes(config: SweepConfig, gpus: float) -> float:
    """Bytes of memory that a GPU must have: for all trials that share it, where a trial takes a share; where
    sharing is measured, for one."""
    if config.trials_per_gpu == "auto":
        return (config.gpu_memory_gb_per_trial or 0) * GB or LEAST_BYTES
    if config.gpu_memory_gb_per_trial is None or not gpus:
        return 0
    return config.gpu_memory_gb_per_trial * GB * (int(1 / gpus + 1e-9) if gpus < 1 else 1)


def too_small(needed: float, cards: Mapping[Node, Answer]) -> dict[Node, str]:
    """PCs on which no trial may be placed, and why. Ray gives a trial any GPU of a PC: the smallest decides.

    Raises:
        UserError: no PC is left; the message names the GPU of each.
    """
    faults = {node: fault for node, found in cards.items() if (fault := _fault(needed, found))}
    if cards and len(faults) == len(cards):
        lines = "\n".join(f"  {node.name}: {fault}" for node, fault in faults.items())
        if needed == LEAST_BYTES:
            raise UserError(f"--trials-per-gpu auto: no PC has a GPU to share:\n{lines}")
        raise UserError(f"--gpu-memory-gb-per-trial: no PC has a GPU of {size(needed)}:\n{lines}")
    return faults


def least_free_bytes(cards: Mapping[Node, Answer], without: Collection[Node]) -> float:
    """Memory in bytes that each GPU of the PCs that are not in `without` has for trials, at least; 0 without
    GPUs. A desktop and other programs take some of it."""
    known = (card for node in cards.keys() - without for card in cards[node].value or ())
    return min(
        (card.memory_bytes - card.used_bytes for card in known if card.memory_bytes is not None), default=0
    )


def _fault(needed: float, answer: Answer) -> str:
    if answer.fault:
        return f"its GPUs are not known: {answer.fault}"
    known = [(card.memory_bytes, card.words) for card in answer.value if card.memory_bytes is not None]
    if not known:
        return "NVIDIA's driver lists no GPU whose memory is known"
    memory_bytes, words = min(known)
    return "" if memory_bytes >= needed else f"its {words} is too small: {size(needed)} needed"
