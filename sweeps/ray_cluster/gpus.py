"""The GPUs that trials may use, as NVIDIA's driver lists them; a PC with too small ones gets no trials."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml
import ray

from sweeps.common.errors import UserError
from sweeps.common.formatting import GB, size
from sweeps.config.sweep_config import SweepConfig
from sweeps.ray_cluster import broadcast, ray_internals
from sweeps.ray_cluster.broadcast import ANSWER_S, Answer
from sweeps.ray_cluster.nodes import Node

LEAST_BYTES = 1
"""Any GPU whose memory size is known."""
VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Card:
    """A GPU."""

    name: str
    driver: str
    """Its version."""
    memory_bytes: int | None
    """None where it shares the memory of the PC."""
    used_bytes: int = 0
    """Of the memory, by whatever runs there now."""

    @property
    def words(self) -> str:
        """Its name and memory."""
        return self.name if self.memory_bytes is None else f"{self.name} of {size(self.memory_bytes)}"


def list_gpus(nvml: Any = pynvml) -> list[Card]:
    """The GPUs of this PC that CUDA_VISIBLE_DEVICES shows; [] where NVIDIA's driver is absent or fails.

    Not by PyTorch: Ray hides all GPUs from a task that takes none.

    Args:
        nvml: the module `pynvml`.
    """
    variables = ray_internals.variables_of_this_pc()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        driver = nvml.nvmlSystemGetDriverVersion()
        cards = [_card(nvml, handle, driver) for handle in _visible(nvml, variables)]
        return [card for card in cards if card is not None]
    except nvml.NVMLError:
        return []
    finally:
        nvml.nvmlShutdown()


def _visible(nvml: Any, variables: Mapping[str, str]) -> list[Any]:
    """NVML's handles of the GPUs that CUDA shows; NVML itself lists all of the PC.

    https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html
    """
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    if variables.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":  # else CUDA counts from the fastest one
        handles.sort(key=lambda handle: -_speed(nvml, handle))
    if (words := variables.get(VISIBLE)) is None:
        return handles
    found: list[Any] = []
    for word in map(str.strip, words.split(",")):
        if word.isdecimal():
            named = handles[int(word) : int(word) + 1]
        elif word.startswith("MIG-"):
            named = [nvml.nvmlDeviceGetHandleByUUID(word)]
        else:
            named = [each for each in handles if word and nvml.nvmlDeviceGetUUID(each).startswith(word)]
        if not named:  # CUDA, too, leaves out what follows
            break
        found += named
    return found


def _speed(nvml: Any, handle: Any) -> float:
    """About the operations per second; 0 where they are not known."""
    try:
        clock = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)
        return float(nvml.nvmlDeviceGetNumGpuCores(handle) * clock)
    except nvml.NVMLError:
        return 0.0


def _card(nvml: Any, handle: Any, driver: str) -> Card | None:
    """A GPU, of one in MIG mode its first slice, which is the one that CUDA takes; None where it is not known
    (a container may hide it)."""
    try:
        with contextlib.suppress(nvml.NVMLError):
            if nvml.nvmlDeviceGetMigMode(handle)[0]:
                handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)
        name = nvml.nvmlDeviceGetName(handle)
    except nvml.NVMLError:
        return None
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    except nvml.NVMLError_NotSupported:
        return Card(name, driver, None)
    except nvml.NVMLError:
        return None
    return Card(name, driver, int(memory.total), int(memory.used))


def list_gpus_of_every_pc(nodes: Sequence[Node]) -> dict[Node, Answer]:
    """The GPUs of each PC, or why they are not known; without PCs that have left since."""
    answers = broadcast.ask(nodes, list_gpus)
    return {node: answer for node, answer in answers.items() if answer.is_there}


def fault_of_joining(needed: float, node: Node) -> str | None:
    """Why no trial may be placed on a PC that joins; "" where trials may; None where it has not answered yet,
    or has left meanwhile. It does not wait: the first call asks the PC, and a later one has the answer.

    Args:
        needed: bytes of memory that a GPU must have; 0: no trial takes a GPU.
        node: the PC.
    """
    if not needed:
        return ""
    since, task = _asked(node.id)
    if ray.wait([task], timeout=0)[0]:
        answer = broadcast.answers({task: node})[node]
        return _fault(needed, answer) if answer.is_there else None
    is_late = time.monotonic() > since + ANSWER_S
    return _fault(needed, Answer(fault=f"no answer within {ANSWER_S:g} s")) if is_late else None


@functools.cache  # Ray gives a PC that joins again another id, so each is asked once
def _asked(node: str) -> tuple[float, Any]:
    """When the PC of this id was asked for its GPUs, and the Ray reference to its answer."""
    return time.monotonic(), broadcast.begin_on(node, list_gpus)


def needed_bytes(config: SweepConfig, gpus: float) -> float:
    """Bytes of memory that a GPU must have: for all trials that share it; where that is measured, for one.

    Args:
        config: of the sweep.
        gpus: GPUs that a trial takes; may be a share of one.
    """
    if config.trials_per_gpu == "auto":
        return (config.gpu_memory_gb_per_trial or 0) * GB or LEAST_BYTES
    if config.gpu_memory_gb_per_trial is None or not gpus:
        return 0
    return config.gpu_memory_gb_per_trial * GB * (int(1 / gpus + 1e-9) if gpus < 1 else 1)


def too_small(needed: float, cards: Mapping[Node, Answer]) -> dict[Node, str]:
    """PCs on which no trial may be placed, and why. Ray gives a trial any GPU of a PC: the smallest decides.

    Args:
        needed: bytes of memory that a GPU must have.
        cards: the answer of each PC.

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
    """Memory in bytes that each GPU of the PCs that are not in `without` has free, at least; 0 without GPUs.
    A desktop takes some of it."""
    known = (card for node in cards.keys() - without for card in cards[node].value or ())
    return min(
        (card.memory_bytes - card.used_bytes for card in known if card.memory_bytes is not None), default=0
    )


def _fault(needed: float, answer: Answer) -> str:
    if not needed:
        return ""
    if answer.fault:
        return f"its GPUs are not known: {answer.fault}"
    known = [(card.memory_bytes, card.words) for card in answer.value if card.memory_bytes is not None]
    if not known:
        return "NVIDIA's driver lists no GPU whose memory is known"
    memory_bytes, words = min(known)
    return "" if memory_bytes >= needed else f"its {words} is too small: {size(needed)} needed"
