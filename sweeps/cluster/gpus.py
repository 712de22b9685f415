"""The GPUs of every PC, as their driver has them: a PC whose cards are too small for a trial gets none."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.cluster import broadcast
from sweeps.cluster.broadcast import Answer
from sweeps.cluster.nodes import Node
from sweeps.common.errors import UserError
from sweeps.common.formatting import GB, size
from sweeps.config.sweep_config import SweepConfig

MIB = 2**20
LEAST_BYTES = 1
"""Any card, but one whose memory is known."""
MOST_S = 60
"""That a PC may take."""
ASK = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader,nounits")
"""Not PyTorch: Ray hides all GPUs from a task that takes none."""


@dataclass(frozen=True)
class Card:
    """A GPU."""

    name: str
    driver: str
    """Its version."""
    memory_bytes: int | None
    """None where it has none of its own."""

    @property
    def words(self) -> str:
        """For people."""
        return self.name if self.memory_bytes is None else f"{self.name} of {size(self.memory_bytes)}"


def of_this_pc() -> list[Card]:
    """All that NVIDIA's driver has; [] where there is none."""
    if shutil.which(ASK[0]) is None:
        return []
    try:
        said = subprocess.run(ASK, capture_output=True, text=True, timeout=MOST_S / 2, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = (line.rsplit(", ", 2) for line in said.splitlines())
    return [_card(*row) for row in rows if len(row) == 3]


def _card(name: str, driver: str, mib: str) -> Card:
    return Card(name, driver, int(mib) * MIB if mib.isdigit() else None)


def of_every_pc(nodes: Sequence[Node]) -> dict[Node, Answer]:
    """A list of cards from each of them; who has left meanwhile is not among them."""
    answers = broadcast.answers(broadcast.begin(nodes, of_this_pc), MOST_S)
    return {node: answer for node, answer in answers.items() if answer.is_there}


class Gate:
    """Keeps trials off a PC that joins while a sweep runs until its cards are known.

    Args:
        needed: bytes that a card must have.
    """

    def __init__(self, needed: float) -> None:
        self._needed = needed
        self._asked: dict[str, tuple[float, dict[Any, Node]]] = {}

    def __call__(self, node: Node) -> str | None:
        """Why no trial may stand on a PC; "": any may; None: it has not answered yet."""
        import ray

        if not self._needed:
            return ""
        if node.id not in self._asked:
            self._asked[node.id] = time.monotonic(), broadcast.begin([node], of_this_pc)
        since, asked = self._asked[node.id]
        if ray.wait(list(asked), timeout=0)[0]:
            answer = broadcast.answers(asked, MOST_S)[node]
            if not answer.is_there:  # asked anew when it is back
                del self._asked[node.id]
                return None
            return _fault(self._needed, answer)
        is_late = time.monotonic() > since + MOST_S
        return _fault(self._needed, Answer(fault=f"no answer within {MOST_S:g} s")) if is_late else None


def needed_bytes(config: SweepConfig, gpus: float) -> float:
    """Memory that a card must have: of all trials that share it; where that is measured, of one.

    Args:
        config: of the sweep.
        gpus: that a trial takes; a share of one, or whole ones.
    """
    if config.trials_per_gpu == "auto":
        return (config.gpu_memory_gb_per_trial or 0) * GB or LEAST_BYTES
    if config.gpu_memory_gb_per_trial is None or not gpus:
        return 0
    return config.gpu_memory_gb_per_trial * GB * (int(1 / gpus + 1e-9) if gpus < 1 else 1)


def too_small(needed: float, cards: Mapping[Node, Answer]) -> dict[Node, str]:
    """PCs on which no trial may stand, and why. Ray gives a trial any card of a PC: the smallest decides.

    Args:
        needed: bytes that a card must have.
        cards: what each PC answers.

    Raises:
        UserError: no PC is left, and what each has.
    """
    faults = {node: fault for node, found in cards.items() if (fault := _fault(needed, found))}
    if cards and len(faults) == len(cards):
        lines = "\n".join(f"  {node.name}: {fault}" for node, fault in faults.items())
        if needed == LEAST_BYTES:
            raise UserError(f"--trials-per-gpu auto: no PC has a GPU to share:\n{lines}")
        raise UserError(f"--gpu-memory-gb-per-trial: no PC has a GPU of {size(needed)}:\n{lines}")
    return faults


def smallest_bytes(cards: Mapping[Node, Answer], without: Collection[Node]) -> float:
    """Memory of the smallest card, but for those of some PCs; 0 where there is none."""
    known = (card.memory_bytes for node in cards.keys() - without for card in cards[node].said or ())
    return min((memory for memory in known if memory is not None), default=0)


def _fault(needed: float, answer: Answer) -> str:
    if not needed:
        return ""
    if answer.fault:
        return f"it does not say which GPUs it has: {answer.fault}"
    known = [(card.memory_bytes, card.words) for card in answer.said if card.memory_bytes is not None]
    if not known:
        return "no GPU whose memory is known (nvidia-smi lists none)"
    memory_bytes, words = min(known)
    return "" if memory_bytes >= needed else f"its {words}, and {size(needed)} are needed"
