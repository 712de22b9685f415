"""Memory: the GPU's allocator and its snapshots, and memory that grows from epoch to epoch."""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import sys
import traceback
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from sweeps.common.errors import CannotTrain
from sweeps.common.formatting import GB, size
from sweeps.training import torch_internals

WARM_UP_EPOCHS = 2
"""First epochs, in which caches fill and allocators settle."""
GROWING_EPOCHS = 5
"""Consecutive epochs of growth that count as a leak."""
LEAST_GROWTH_GB = 0.002
"""Per epoch; less is noise of the allocator."""
_WATCHED = {"memory_gb": "the process", "gpu_memory_gb": "the GPU"}
_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def use_expandable_segments() -> None:
    """Use expandable segments on the GPU, unless the user has set the allocator, against fragmentation by
    batches of changing size. PyTorch reads the setting once, at the first use of CUDA.

    https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage
    """
    # Windows' driver does not support them, and PyTorch warns. Under WSL the first allocation fails on some
    # cards (pytorch#192330).
    is_supported = sys.platform == "linux" and "microsoft" not in platform.release().lower()
    if is_supported and not any(name in os.environ for name in _ALLOCATOR):
        os.environ[_ALLOCATOR[0]] = "expandable_segments:True"


def free() -> bool:
    """Collect garbage and return the cached GPU memory; whether the GPU still computes in this process.

    After an error in a kernel (of a label out of range, say) each call of CUDA fails as long as the process
    lives: https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html (cudaErrorAssert)
    """
    gc.collect()
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # PyTorch's has no types
        return True
    try:
        torch.cuda.synchronize()  # it raises what a kernel has met, whether or not memory is cached
        torch.cuda.empty_cache()
    except RuntimeError:
        traceback.print_exc()
        return False
    return True


def keep_to_share(share: float, beside_bytes: int) -> None:
    """Give this process no more of its GPU's memory than a share: where it needs more it runs out of memory
    itself, and not another process on that GPU.

    Args:
        share: of the GPU; 1 is the whole.
        beside_bytes: of the share, that the driver takes for the process.
    """
    if share < 1 and torch.cuda.is_available():
        whole = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(max(0.0, share - beside_bytes / whole))


class Growth:
    """Detects memory that grows in every epoch."""

    def __init__(self) -> None:
        self._epochs = 0
        self._growing: defaultdict[str, list[float]] = defaultdict(list)
        """GB of the last epochs, each larger than the one before."""

    def note(self, costs: Mapping[str, float]) -> str:
        """Add an epoch's memory (`memory_gb`, `gpu_memory_gb`); returns a warning, mostly ""."""
        self._epochs += 1
        warnings = []
        for name in _WATCHED.keys() & costs.keys() if self._epochs > WARM_UP_EPOCHS else ():
            growing, now = self._growing[name], costs[name]
            if growing and now - growing[-1] < LEAST_GROWTH_GB:
                growing.clear()
            growing.append(now)
            if len(growing) > GROWING_EPOCHS:
                mean = size(GB * (now - growing[0]) / GROWING_EPOCHS)
                warnings.append(
                    f"the memory of {_WATCHED[name]} grew in each of the last {GROWING_EPOCHS} epochs, by "
                    f"{mean} per epoch, to {size(GB * now)}. Look for tensors kept across epochs: losses "
                    "summed without .detach(), or a list that only grows"
                )
                growing.clear()  # the next warning needs as many epochs again
        return "; ".join(warnings)


@contextlib.contextmanager
def recorded(file: Path | None) -> Iterator[None]:
    """Record the GPU's allocations, and write them to `file` for https://pytorch.org/memory_viz, also when
    memory runs out; None records nothing.

    Raises:
        CannotTrain: there is no GPU.
    """
    if file is None:
        yield
        return
    if not torch.cuda.is_available():
        raise CannotTrain("--memory-snapshot: it records the memory of a GPU, but there is none")
    torch_internals.record_allocations()
    try:
        yield
    finally:
        if file.parent.is_dir():  # a refused run has no folder
            with contextlib.suppress(OSError):  # a full disk must not hide how the run ended
                torch_internals.write_allocations(file)
        torch_internals.stop_recording_allocations()
