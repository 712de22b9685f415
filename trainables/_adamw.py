"""AdamW in one kernel for all weights, where that is right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.distributed.fsdp import FlatParameter


def adamw(groups: Iterable[dict[str, Any]], lr: float) -> torch.optim.AdamW:
    """Fused: less time (benchmarks/inner_loop.py), and in fp16 no waiting for the GPU in each step.

    Not under FSDP, whose scaler tells workers of each other's overflows only where the optimizer is not fused
    (`unscale_` in torch/distributed/fsdp/sharded_grad_scaler.py, PyTorch 2.13). In mixed precision Lightning
    refuses to clip the gradients of a fused one (Lightning#15555, #21435); nothing here clips.

    Args:
        groups: weights ("params"), with a "weight_decay" of theirs.
        lr: of all.
    """
    groups = list(groups)
    fused = not any(isinstance(weight, FlatParameter) for group in groups for weight in group["params"])
    return torch.optim.AdamW(groups, lr=lr, fused=fused)
