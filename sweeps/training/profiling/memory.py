"""Memory: what ran out of it, what grows from epoch to epoch, and how PyTorch hands the GPU's out."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from sweeps.common.errors import CannotTrain, causes
from sweeps.common.formatting import GB, size

OUT_OF_MEMORY = 3
"""Exit status of a single run that did not fit."""
WARM_UP_EPOCHS = 2
"""In the first ones caches fill and allocators settle."""
GROWING_EPOCHS = 5
"""So many in a row that each took more than the one before are a leak."""
LEAST_GROWTH_GB = 0.002
"""An epoch; less is noise of the allocator, and lasts longer than any training."""
_WATCHED = {"memory_gb": "the process", "gpu_memory_gb": "the GPU"}
_SAID_BY_PYTORCH = ("can't allocate memory", "out of memory", "ALLOC_FAILED")
"""What is no MemoryError says so: a CPU's allocator, CUDA's libraries (cuBLAS, cuDNN)."""
_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or what caused it, is that memory ran out: of the GPU or of the PC."""
    return any(
        isinstance(cause, torch.OutOfMemoryError | MemoryError)
        or (isinstance(cause, RuntimeError) and any(words in str(cause) for words in _SAID_BY_PYTORCH))
        for cause in causes(error)
    )


def use_expandable_segments() -> None:
    """Let the GPU's memory be handed out in segments that grow, unless the user has set the allocator.

    Batches of changing size then leave no holes that none fits in. PyTorch reads it once, when
    CUDA is first asked for something; https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage
    """
    # PyTorch warns of it on Windows, where the driver can't.
    if sys.platform == "linux" and not any(name in os.environ for name in _ALLOCATOR):
        os.environ[_ALLOCATOR[0]] = "expandable_segments:True"


def free() -> None:
    """Collect cycles of references that nothing needs; give their memory back to the GPU."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class Growth:
    """Watches what each epoch takes, and says it once when that grows and grows."""

    def __init__(self) -> None:
        self._seen: defaultdict[str, list[float]] = defaultdict(list)

    def note(self, costs: Mapping[str, float]) -> str:
        """An epoch took so much (`memory_gb`, `gpu_memory_gb`); what there is to say of it, mostly ""."""
        said = []
        for name, owner in _WATCHED.items():
            seen = self._seen[name]
            seen.append(costs.get(name, 0.0))
            recent = seen[WARM_UP_EPOCHS:][-GROWING_EPOCHS - 1 :]
            steps = [after - before for before, after in itertools.pairwise(recent)]
            if len(steps) == GROWING_EPOCHS and min(steps) >= LEAST_GROWTH_GB:
                mean = size(GB * sum(steps) / GROWING_EPOCHS)
                said.append(
                    f"the memory of {owner} grew in each of the last {GROWING_EPOCHS} epochs, by {mean} an "
                    f"epoch, to {size(GB * recent[-1])}: something is kept from epoch to epoch (losses "
                    "summed without .detach(), a list that only grows)"
                )
                seen.clear()  # said again only where it goes on for as long
        return "; ".join(said)


@contextlib.contextmanager
def recorded(file: Path | None) -> Iterator[None]:
    """Record each allocation on the GPU, and leave the record in `file`, also when memory runs out.

    https://pytorch.org/memory_viz draws it; None records nothing.

    Raises:
        CannotTrain: there is no GPU.
    """
    if file is None:
        yield
        return
    if not torch.cuda.is_available():
        raise CannotTrain("--memory-snapshot: records the memory of a GPU, and there is none")
    # Underscored, and PyTorch's documented way: docs.pytorch.org/docs/stable/torch_cuda_memory.html
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    try:
        yield
    finally:
        if file.parent.is_dir():  # it is not where a run is refused
            with contextlib.suppress(OSError):  # a full disk: how the run ended is worth more
                torch.cuda.memory._dump_snapshot(str(file))  # type: ignore[no-untyped-call]
        torch.cuda.memory._record_memory_history(enabled=None)
