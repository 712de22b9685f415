"""Whole fp32 weights of a model, whatever strategy its workers train with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy
from torch import nn
from torch.distributed.fsdp import FullStateDictConfig, StateDictType
from torch.distributed.fsdp import FullyShardedDataParallel as Fsdp

from sweeps.common import atomic_io, params_file
from sweeps.common.params_file import WEIGHTS_FILE


def keep(folder: Path, best: Mapping[str, torch.Tensor], about: str) -> None:
    """Write the best epoch's weights and params.yaml into a new folder, atomically."""
    with atomic_io.atomic_write(folder) as part:
        part.mkdir()
        torch.save(best, part / WEIGHTS_FILE)
        (part / params_file.FILE).write_text(about, encoding="utf-8")


def whole(trainer: pl.Trainer) -> dict[str, torch.Tensor]:
    """The model's `state_dict()` as on a single device, in fp32 on the CPU; {} on FSDP's other workers. All
    workers must call it together."""
    strategy, model = trainer.strategy, trainer.lightning_module
    if isinstance(strategy, FSDPStrategy):
        return _of_fsdp(strategy)
    state = {name: value.detach().to("cpu", copy=True) for name, value in model.state_dict().items()}
    if isinstance(strategy, DeepSpeedStrategy):
        state.update(_of_zero(model))
    return state


def checkpoint_bytes(trainer: pl.Trainer, best: Mapping[str, torch.Tensor]) -> int:
    """Bytes of a checkpoint, about: the last and the best weights, and the state of the optimizers, of all
    workers. What hooks of the user add is not counted.

    Args:
        trainer: has trained a step.
        best: whole weights.
    """
    is_sharded = isinstance(trainer.strategy, FSDPStrategy | DeepSpeedStrategy)
    state = sum(each.nbytes for optimizer in trainer.optimizers for each in _tensors(optimizer.state))
    weights = sum(weight.nbytes for weight in best.values())
    return 2 * weights + state * (trainer.world_size if is_sharded else 1)


def _tensors(state: Any) -> Iterator[torch.Tensor]:
    """All of a nested state."""
    if isinstance(state, torch.Tensor):
        yield state
    elif isinstance(state, Mapping | list | tuple):
        for each in state.values() if isinstance(state, Mapping) else state:
            yield from _tensors(each)


def _of_fsdp(strategy: FSDPStrategy) -> dict[str, torch.Tensor]:
    assert isinstance(strategy.model, nn.Module)
    # On a CPU, "offloaded" weights would be views of memory that FSDP frees.
    settings = FullStateDictConfig(offload_to_cpu=strategy.root_device.type != "cpu", rank0_only=True)
    with Fsdp.state_dict_type(strategy.model, StateDictType.FULL_STATE_DICT, settings):
        return {name: value.detach().clone() for name, value in strategy.model.state_dict().items()}


def _of_zero(model: nn.Module) -> dict[str, torch.Tensor]:
    """The optimizer's fp32 weights: the model's own have half precision, and with stage 3 are shards."""
    import deepspeed
    from deepspeed.utils import safe_get_full_fp32_param

    weights = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        whole = safe_get_full_fp32_param(weight) if weight.requires_grad else None
        if whole is None:  # it is frozen
            with deepspeed.zero.GatheredParameters([weight]):
                whole = weight.detach().float()
        weights[name] = whole.detach().to("cpu", copy=True)
    return weights
