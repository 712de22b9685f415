"""The GPUs of every PC, as NVIDIA's driver lists them: a PC whose GPUs are too small gets no trials."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml
import ray

from sweeps.cluster import broadcast
from sweeps.cluster.broadcast import Answer
from sweeps.cluster.nodes import Node
from sweeps.common.errors import UserError
from sweeps.common.formatting import GB, size
from sweeps.config.sweep_config import SweepConfig

LEAST_BYTES = 1
"""Any GPU whose memory size is known."""
TIMEOUT_S = 60
"""For the answer of a PC."""


@dataclass(frozen=True)
class Card:
    """A GPU."""

    name: str
    driver: str
    """Its version."""
    memory_bytes: int | None
    """None where it shares the memory of the PC."""

    @property
    def words(self) -> str:
        """Its name and memory."""
        return self.name if self.memory_bytes is None else f"{self.name} of {size(self.memory_bytes)}"


def of_this_pc(nvml: Any = pynvml) -> list[Card]:
    """All GPUs of this PC; [] where NVIDIA's driver is absent or fails.

    Not by PyTorch: Ray hides all GPUs from a task that takes none.

    Args:
        nvml: the module `pynvml`.
    """
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        driver = nvml.nvmlSystemGetDriverVersion()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        return [Card(nvml.nvmlDeviceGetName(each), driver, _memory_bytes(nvml, each)) for each in handles]
    except nvml.NVMLError:
        return []
    finally:
        nvml.nvmlShutdown()


def _memory_bytes(nvml: Any, handle: Any) -> int | None:
    try:
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    except nvml.NVMLError_NotSupported:
        return None


def of_every_pc(nodes: Sequence[Node]) -> dict[Node, Answer]:
    """The GPUs of each PC, or why they are not known; without PCs that have left since."""
    answers = broadcast.answers(broadcast.begin(nodes, of_this_pc), TIMEOUT_S)
    return {node: answer for node, answer in answers.items() if answer.is_there}


class GpuCheck:
    """Checks each PC that joins while a sweep runs.

    Args:
        needed: bytes of memory that a GPU must have; 0: no trial takes a GPU.
    """

    def __init__(self, needed: float) -> None:
        self._needed = needed
        self._begun: dict[str, tuple[float, dict[Any, Node]]] = {}

    def __call__(self, node: Node) -> str | None:
        """Why no trial may be placed on a PC; "" where trials may; None where it has not answered yet."""
        if not self._needed:
            return ""
        if node.id not in self._begun:
            self._begun[node.id] = time.monotonic(), broadcast.begin([node], of_this_pc)
        since, tasks = self._begun[node.id]
        if ray.wait(list(tasks), timeout=0)[0]:
            answer = broadcast.answers(tasks, TIMEOUT_S)[node]
            if not answer.is_there:  # it is asked again when it is back
                del self._begun[node.id]
                return None
            return _fault(self._needed, answer)
        is_late = time.monotonic() > since + TIMEOUT_S
        return _fault(self._needed, Answer(fault=f"no answer within {TIMEOUT_S:g} s")) if is_late else None


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


def smallest_bytes(cards: Mapping[Node, Answer], without: Collection[Node]) -> float:
    """Memory in bytes of the smallest GPU of the PCs that are not in `without`; 0 where there is none."""
    known = (card.memory_bytes for node in cards.keys() - without for card in cards[node].value or ())
    return min((memory for memory in known if memory is not None), default=0)


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
