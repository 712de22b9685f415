"""Parts of PyTorch that its documentation does not promise. No other module of this room uses any.

A test of each names PyTorch's version where it has changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.optim.lr_scheduler import ChainedScheduler, LRScheduler, SequentialLR


def free_shards(model: nn.Module) -> None:
    """Break the cycles that keep FSDP's weights in memory, which Python can't see: weights, views, graph.

    https://github.com/pytorch/pytorch/pull/183211
    """
    modules: Any = FullyShardedDataParallel.fsdp_modules(model)
    for weights in [module._handle.flat_param for module in modules if module._handle is not None]:
        weights._tensors, weights._modules = None, set()
        weights._param_infos = weights._shared_param_infos = ()
        # Where a step broke off, the hook that was to follow its gradients is there still.
        for hook in vars(weights).pop("_post_backward_hook_state", ())[-1:]:
            hook.remove()


@contextlib.contextmanager
def recorded_allocations(file: Path) -> Iterator[None]:
    """Record what is allocated on the GPU, and write it for https://pytorch.org/memory_viz.

    Underscored, and PyTorch's own way: https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
    """
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    try:
        yield
    finally:
        if file.parent.is_dir():  # a refused run has no folder
            with contextlib.suppress(OSError):  # a full disk must not hide how the run ended
                torch.cuda.memory._dump_snapshot(str(file))  # type: ignore[no-untyped-call]
        torch.cuda.memory._record_memory_history(enabled=None)


def parts_of_schedule(schedule: LRScheduler, begins: int = 0) -> list[tuple[int, LRScheduler]]:
    """The schedules that a SequentialLR or a ChainedScheduler is made of, each with the step at which it
    begins; any other schedule alone."""
    if isinstance(schedule, SequentialLR):
        parts = zip([0, *schedule._milestones], schedule._schedulers, strict=True)
    elif isinstance(schedule, ChainedScheduler):
        parts = zip([0] * len(schedule._schedulers), schedule._schedulers, strict=True)
    else:
        return [(begins, schedule)]
    return [each for after, part in parts for each in parts_of_schedule(part, begins + after)]
