"""torch.compile for a trial, with compiled code shared by all trials of a PC.

Only the model's forward is compiled: Dynamo of PyTorch 2.13 fails on `self.log` in Lightning's steps. Without
the optimizer's step no guard holds learning rate or weight decay: trials that differ in those compile once.
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
from sweeps.common.local_dirs import cache_dir

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
COMPILED = "compiled"
"""Folder in the user's cache: it survives a restart, unlike PyTorch's default in /tmp."""
WITH = (
    *("single", "ddp", "ddp_find_unused_parameters_true"),
    *("deepspeed_stage_1", "deepspeed_stage_2", "deepspeed_stage_2_offload"),
)
"""Strategies that do not shard weights."""


def check(strategy: str) -> None:
    """Check that a model can be compiled here.

    Raises:
        CannotTrain: the strategy shards weights, or there is no compiler.
    """
    if strategy not in WITH:
        raise CannotTrain(
            f"compile: strategy {strategy} shards the weights; use one of {', '.join(WITH)}, or no --compile"
        )
    names = ("CC", "gcc", "clang") if torch.cuda.is_available() else ("CXX", "g++", "clang++")
    variable, *compilers = names
    if not (os.environ.get(variable) or any(map(shutil.which, compilers))):
        raise CannotTrain(
            f"compile: PyTorch needs a compiler ({' or '.join(compilers)}, or ${variable}), and there is "
            f"none: apt-get install {compilers[0]}"
        )


def compile_model(model: pl.LightningModule) -> None:
    """Compile the model's forward in place, so that its weights keep their names."""
    os.environ.setdefault(CACHE_VARIABLE, str(cache_dir() / COMPILED))
    # After eight shapes PyTorch would silently stop compiling in this process; what earlier trials have
    # compiled is loaded from the cache in a second.
    torch.compiler.reset()
    has_forward = is_overridden("forward", model, pl.LightningModule)
    for module in [model] if has_forward else model.children():  # else its steps call its children
        # Not `module.compile()`: it compiles the call, and with DDP and ZeRO a call is a whole step.
        module.forward = torch.compile(_in_a_frame(module.forward))


def _in_a_frame(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Add a frame of this file: PyTorch compiles no call whose first frame is its own (nn.Sequential)."""

    def call(*inputs: Any, **named: Any) -> Any:
        return forward(*inputs, **named)

    return call
