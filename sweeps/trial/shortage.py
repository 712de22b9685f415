"""The memory of a GPU at the moment when a trial ran out of it: who held how much."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from dataclasses import replace

import torch

from sweeps.common import gpus
from sweeps.common.errors import ProgramFailed, causes
from sweeps.common.formatting import GB
from sweeps.common.gpus import CONTEXT_GB
from sweeps.ray_cluster import broadcast
from sweeps.trial.messages import Failure, OutOfMemory, Shortage, WorkerFailed

_AMOUNT = r"([\d.]+) ?(bytes|KiB|MiB|GiB)"
_ASKED = re.compile(f"[Tt]r(?:ied|ying) to allocate {_AMOUNT}")
_HAD = re.compile(f"this process has {_AMOUNT} memory in use")
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_OF_GPU = ("CUDA", "CUBLAS", "CUDNN", "RESOURCE_EXHAUSTED")
UNKNOWN_ASKED_BYTES = GB // 2
"""Asked for by a library that does not say how much: the workspaces of cuBLAS and cuDNN, and CUDA's own
memory of a process."""


def measured(failure: Failure, error: BaseException) -> Failure:
    """A failure with what there is to know of the GPU's memory, where that has just run out in this process.

    Args:
        failure: of a trial.
        error: that was raised for it.
    """
    if not isinstance(failure, OutOfMemory) or isinstance(error, WorkerFailed):  # measured elsewhere
        return failure
    texts = [f"{type(cause).__name__}: {cause}" for cause in causes(error)]
    if not any(word in text for word in _OF_GPU for text in texts):
        return failure
    if not (cards := gpus.listed(os.environ)):
        return failure
    card = cards[0]  # Ray shows a worker its GPU alone
    own = torch.cuda.memory_reserved()  # 0 where this process uses none
    if isinstance(error, ProgramFailed):  # it has ended, and its memory is free again
        had = _bytes_in(_HAD, texts) or 0
        own = max(0, had - int(CONTEXT_GB * GB))
        card = replace(card, used_bytes=card.used_bytes + had)
    found = Shortage(
        card=card,
        pc=platform.node(),
        node=broadcast.here(),
        pid=os.getpid(),
        own_bytes=own,
        asked_bytes=asked_bytes(texts),
    )
    return replace(failure, shortage=found)


def asked_bytes(texts: Iterable[str]) -> int:
    """What PyTorch or JAX was asked for, as its errors say."""
    return _bytes_in(_ASKED, texts) or UNKNOWN_ASKED_BYTES


def _bytes_in(amount: re.Pattern[str], texts: Iterable[str]) -> int | None:
    for text in texts:
        if found := amount.search(text):
            return int(float(found[1]) * _UNITS[found[2]])
    return None
