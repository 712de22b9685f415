"""A step of AdamW in fp16 that overflowed. (test_strategies.py: it is not fused under FSDP.)"""

from __future__ import annotations

import lightning.pytorch as pl
import torch

from trainables._shared.optim import adamw


def test_a_step_that_overflowed_leaves_no_trace() -> None:
    weight = torch.nn.Parameter(torch.ones(100))
    optimizer = adamw(pl.LightningModule(), [{"params": [weight], "weight_decay": 0.1}], lr=0.1)
    assert optimizer.param_groups[0]["fused"]
    weight.grad = torch.full((100,), float("inf"))
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(1.0), torch.tensor(1.0)  # type: ignore[attr-defined]
    optimizer.step()
    assert weight.equal(torch.ones(100))
    assert not any(value.any() for value in optimizer.state[weight].values())
