"""What `auto` chooses and why, what is refused, and that all strategies train alike."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch import nn

from sweeps.common.errors import CannotTrain
from sweeps.training.config import FitConfig, Strategy
from sweeps.training.distributed import strategy
from sweeps.training.distributed.strategy import Choice, Device

pytest.importorskip("deepspeed", reason="deepspeed is not installed")

CPU = Device(memory_bytes=None, has_bf16=True)
RTX_2080_TI = Device(memory_bytes=11 * 10**9, has_bf16=False)
H200 = Device(memory_bytes=140 * 10**9, has_bf16=True)


def config(**settings: Any) -> FitConfig:
    return FitConfig(max_epochs=1, metric="val_acc", mode="max", **settings)


def chosen(device: Device, trained_weights: int = 10**6, **settings: Any) -> tuple[str, str]:
    choice = strategy.choose(config(**settings), trained_weights, device)
    return choice.strategy, choice.precision


@pytest.mark.parametrize(
    ("device", "weights", "settings", "expected"),
    [
        (CPU, 10**6, {}, ("single", "32-true")),
        (CPU, 10**12, {}, ("single", "32-true")),
        (RTX_2080_TI, 10**6, {}, ("single", "16-mixed")),
        (RTX_2080_TI, 10**9, {}, ("deepspeed_stage_2_offload", "16-mixed")),
        (H200, 10**9, {}, ("single", "16-mixed")),
        (H200, 10**6, {"precision": "bf16-mixed"}, ("single", "bf16-mixed")),
        (RTX_2080_TI, 10**6, {"devices": 2}, ("deepspeed_stage_2", "16-mixed")),
        (RTX_2080_TI, 10**6, {"num_nodes": 4}, ("deepspeed_stage_2", "16-mixed")),
        (CPU, 10**6, {"devices": 2, "precision": "bf16-mixed"}, ("deepspeed_stage_2", "bf16-mixed")),
        (CPU, 10**6, {"devices": 2, "strategy": "ddp"}, ("ddp", "32-true")),
    ],
)
def test_auto(device: Device, weights: int, settings: dict[str, Any], expected: tuple[str, str]) -> None:
    assert chosen(device, weights, **settings) == expected


def test_the_choice_says_why() -> None:
    large = strategy.choose(config(), 10**9, RTX_2080_TI).in_words
    assert large == (
        "deepspeed_stage_2_offload (weights, gradients and Adam's state take 16 GB, the GPU has 11 GB), "
        "16-mixed (there is a GPU)"
    )
    alone = strategy.choose(config(precision="bf16-mixed"), 10**6, CPU).in_words
    assert alone == "single (one device, and the model fits), bf16-mixed (as asked)"


@pytest.mark.parametrize(
    ("device", "settings", "message"),
    [
        (
            CPU,
            {"precision": "16-mixed"},
            "precision 16-mixed: fp16 needs a GPU, and this PC has none",
        ),
        (RTX_2080_TI, {"precision": "bf16-mixed"}, "precision bf16-mixed: this GPU is older than Ampere"),
        (CPU, {"strategy": "single", "devices": 2}, "strategy single: takes one worker, not 2; give ddp"),
    ],
)
def test_what_can_not_run_is_refused(device: Device, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CannotTrain, match=message):
        chosen(device, **settings)


def test_fsdp_wraps_what_stands_in_sequences_by_itself() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Sequential(nn.Linear(2, 2)))
    wraps = strategy._blocks(model)
    wrapped = [m for m in model.modules() if wraps(module=m, recurse=False, nonwrapped_numel=0)]
    assert wrapped == [model[0], model[2]]
    assert wraps(module=model[1], recurse=True, nonwrapped_numel=0)


def test_every_strategy_can_be_built_or_says_that_deepspeed_is_missing() -> None:
    for name in get_args(Strategy):
        if name != "auto":
            assert strategy.build_strategy(Choice(name, "32-true", "", ""), nn.Sequential(nn.Linear(1, 1)))


@pytest.mark.parametrize("fused", [True, False, None])
def test_a_fused_optimizer_is_refused_where_shards_would_drift_apart(fused: bool | None) -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizers = [torch.optim.SGD([weight]), torch.optim.AdamW([weight], fused=fused)]
    if not fused:
        strategy.refuse_fused(optimizers)
        return
    with pytest.raises(CannotTrain, match=r"fsdp in 16-mixed: the model's optimizer is fused"):
        strategy.refuse_fused(optimizers)
