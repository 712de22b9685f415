"""AdamW in one kernel for all weights, where that is right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import FSDPStrategy


def adamw(model: pl.LightningModule, groups: Iterable[dict[str, Any]], lr: float) -> torch.optim.AdamW:
    """Fused: less time (benchmarks/inner_loop.py), and in fp16 no waiting for the GPU in each step.

    Not under FSDP, whose scaler tells workers of each other's overflows only where the optimizer is not fused
    (`unscale_` in torch/distributed/fsdp/sharded_grad_scaler.py, PyTorch 2.13). In mixed precision Lightning
    refuses to clip the gradients of a fused one (Lightning#15555, #21435); nothing here clips.

    Args:
        model: whose weights they are.
        groups: weights ("params"), with a "weight_decay" of theirs.
        lr: of all.
    """
    return torch.optim.AdamW(groups, lr=lr, fused=not _is_trained_by_fsdp(model))


def _is_trained_by_fsdp(model: pl.LightningModule) -> bool:
    try:
        strategy = model.trainer.strategy
    except RuntimeError:  # it is in no Trainer
        return False
    return isinstance(strategy, FSDPStrategy)
