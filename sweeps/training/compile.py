"""torch.compile for a trial: compiled code that all trials of a PC share, and nothing that piles up.

The model's forward is compiled in place, not Lightning's steps around it, which Dynamo can't follow with
PyTorch 2.13 (it stumbles over `self.log`). Neither the optimizer's step: so no guard holds a learning
rate or a weight decay, and trials that differ in those alone compile once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities.model_helpers import is_overridden

from sweeps.common.errors import CannotTrain
from sweeps.common.machine_folders import cache_dir

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
COMPILED = "compiled"
"""In the user's cache: it is there after a restart, unlike PyTorch's default in /tmp."""
WITH = ("single", "ddp", "deepspeed_stage_1", "deepspeed_stage_2", "deepspeed_stage_2_offload")
"""Strategies that leave the weights of a module where its compiled code expects them."""


def check(strategy: str) -> None:
    """Refuse what can't be compiled here.

    Raises:
        CannotTrain: the strategy shards weights, or there is no compiler.
    """
    if strategy not in WITH:
        raise CannotTrain(
            f"compile: not with strategy {strategy}, which takes the weights apart; with {', '.join(WITH)}"
        )
    names = ("CC", "gcc", "clang") if torch.cuda.is_available() else ("CXX", "g++", "clang++")
    variable, *compilers = names
    if not (os.environ.get(variable) or any(map(shutil.which, compilers))):
        raise CannotTrain(
            f"compile: PyTorch needs a compiler ({' or '.join(compilers)}, or ${variable}) and there is "
            f"none: apt-get install {compilers[0]}"
        )


def compile_model(model: pl.LightningModule) -> None:
    """Compile what the model computes, in place: its weights keep their names."""
    os.environ.setdefault(CACHE_VARIABLE, str(cache_dir() / COMPILED))
    # Of more than eight shapes PyTorch would compile no more in this process, and say nothing; what the
    # trials before have compiled is in the cache, a second away.
    torch.compiler.reset()
    has_forward = is_overridden("forward", model, pl.LightningModule)
    for module in [model] if has_forward else model.children():  # else its steps call these
        # Not `module.compile()`: that compiles the call, and by DDP and ZeRO a call is a whole step.
        module.forward = torch.compile(_in_a_frame(module.forward))


def _in_a_frame(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Of this file: PyTorch compiles no frame of its own modules (nn.Sequential) where that is the first."""

    def call(*inputs: Any, **named: Any) -> Any:
        return forward(*inputs, **named)

    return call
