"""Where AdamW is fused, and that a step in fp16 that overflowed does it no harm."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from trainables._adamw import adamw


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("is_flat", [False, True], ids=["whole", "of FSDP"])
def test_it_is_fused_but_not_under_fsdp(device: str, is_flat: bool) -> None:
    with FakeTensorMode():
        weight = torch.nn.Parameter(torch.empty(3, device=device))
    weight._is_flat_param = is_flat  # type: ignore[attr-defined]
    optimizer = adamw([{"params": [weight], "weight_decay": 0.1}], lr=0.1)
    assert optimizer.param_groups[0]["fused"] is not is_flat
    assert getattr(optimizer, "_step_supports_amp_scaling", False) is not is_flat  # what a scaler asks


def test_a_step_that_overflowed_leaves_no_trace() -> None:
    weight = torch.nn.Parameter(torch.ones(100))
    optimizer = adamw([{"params": [weight], "weight_decay": 0.1}], lr=0.1)
    weight.grad = torch.full((100,), float("inf"))
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(1.0), torch.tensor(1.0)  # type: ignore[attr-defined]
    optimizer.step()
    assert weight.equal(torch.ones(100))
    assert not any(value.any() for value in optimizer.state[weight].values())
