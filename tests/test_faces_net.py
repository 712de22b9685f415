"""The network of faces: where its optimizer is fused."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from trainables._faces_net import FaceNet


def optimizer_of(device: str, *, is_flat: bool = False) -> torch.optim.Optimizer:
    """Of weights that are only said to be there.

    Args:
        device: where.
        is_flat: as FSDP has them.
    """
    model = FaceNet(2, lr=0.1, weight_decay=0.0)
    with FakeTensorMode():
        weight = torch.nn.Parameter(torch.empty(3, device=device))
        weight._is_flat_param = is_flat  # type: ignore[attr-defined]
        model.net = torch.nn.Sequential()
        model.net.register_parameter("weight", weight)
        made = model.configure_optimizers()
    assert isinstance(made, torch.optim.AdamW)
    return made


@pytest.mark.parametrize(
    ("device", "is_flat", "fused"), [("cuda", False, True), ("cuda", True, None), ("cpu", False, None)]
)
def test_the_optimizer_is_fused_on_a_gpu_but_not_in_fsdp(
    device: str, is_flat: bool, fused: bool | None
) -> None:
    optimizer = optimizer_of(device, is_flat=is_flat)
    assert optimizer.param_groups[0]["fused"] is fused
    assert getattr(optimizer, "_step_supports_amp_scaling", False) is bool(fused)  # what a scaler asks


@pytest.mark.parametrize(("before", "now", "fused"), [("cpu", "cuda", True), ("cuda", "cpu", None)])
def test_a_checkpoint_of_another_device_does_not_change_that(
    before: str, now: str, fused: bool | None
) -> None:
    written = optimizer_of(before).state_dict()
    optimizer = optimizer_of(now)
    optimizer.load_state_dict(written)
    assert optimizer.param_groups[0]["fused"] is fused


def test_a_step_that_overflowed_leaves_no_trace_in_a_fused_adamw() -> None:
    weight = torch.nn.Parameter(torch.ones(100))
    optimizer = torch.optim.AdamW([weight], lr=0.1, fused=True)
    weight.grad = torch.full((100,), float("inf"))
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(1.0), torch.tensor(1.0)  # type: ignore[attr-defined]
    optimizer.step()
    assert weight.equal(torch.ones(100))
    assert not any(value.any() for value in optimizer.state[weight].values())
