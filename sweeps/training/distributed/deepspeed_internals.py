"""ZeRO by DeepSpeed under Lightning, on a CPU as well; and parts of DeepSpeed that its documentation does not
promise. No other module of this room uses any; a test of each names DeepSpeed's version where it has changed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lightning.fabric.utilities.seed import reset_seed
from lightning.pytorch.accelerators import CUDAAccelerator
from lightning.pytorch.strategies import DDPStrategy, DeepSpeedStrategy, Strategy

from sweeps.training import lightning_internals


def build_zero(stage: int, offloads: bool) -> Strategy:
    """The strategy for Lightning's Trainer.

    Args:
        offloads: whether the shards of the optimizer, and of stage 3 the weights, are in the PC's memory.

    Raises:
        ModuleNotFoundError: DeepSpeed is not installed.
    """
    on_cpu = not torch.cuda.is_available()
    if on_cpu:
        os.environ["DS_ACCELERATOR"] = "cpu"  # before DeepSpeed is imported
    return Zero(
        stage=stage,
        offload_optimizer=offloads,
        offload_parameters=offloads and stage == 3,
        # Lightning would read it of the loader, which may have no batch size.
        logging_batch_size_per_gpu=1,
        logging_level=logging.ERROR,
        process_group_backend="gloo" if on_cpu else None,
    )


class Zero(DeepSpeedStrategy):
    """Lightning's strategy, also on a CPU, where DeepSpeed runs over gloo and Lightning refuses it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        assert isinstance(self.config, dict)
        self.config["zero_force_ds_cpu_optimizer"] = False  # an offloaded one would be compiled

    def setup_environment(self) -> None:
        if isinstance(self.accelerator, CUDAAccelerator):
            super().setup_environment()
        else:
            DDPStrategy.setup_environment(self)  # without Lightning's check for a GPU

    def setup_distributed(self) -> None:
        if isinstance(self.accelerator, CUDAAccelerator):
            super().setup_distributed()
            return
        reduce_by_gloo()
        reset_seed()
        self.set_world_ranks()
        lightning_internals.init_deepspeed(self)

    # Both Lightning and DeepSpeed would divide the loss of a micro-batch by the accumulation, and DeepSpeed
    # counts micro-batches on past the end of an epoch, where Lightning begins anew (DeepSpeed#7439). So
    # Lightning alone counts, as with every other strategy, and sets DeepSpeed's boundaries. (DeepSpeed's own
    # managed_gradient_accumulation=False, DeepSpeed#8183, keeps stage 3 from overlapping communication.)

    @property
    def handles_gradient_accumulation(self) -> bool:
        return False

    @contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        """Mark a micro-batch after which no step is due."""
        self.deepspeed_engine.set_gradient_accumulation_boundary(False)
        yield

    def optimizer_step(self, *args: Any, **settings: Any) -> Any:
        """Compute the last micro-batch of a step, then take the step."""
        self.deepspeed_engine.set_gradient_accumulation_boundary(True)
        return super().optimizer_step(*args, **settings)

    def backward(self, closure_loss: torch.Tensor, *args: Any, **settings: Any) -> torch.Tensor:
        """Compute gradients of a loss that Lightning has already divided by the accumulation."""
        return super().backward(closure_loss, *args, scale_wrt_gas=False, **settings)

    def release(self) -> None:
        """Have DeepSpeed forget the model, which it would keep as long as this process runs.

        https://github.com/deepspeedai/DeepSpeed/issues/7204
        """
        import deepspeed

        try:
            if isinstance(self.model, deepspeed.DeepSpeedEngine):
                self.model.destroy()
        finally:
            forget_stage_3()

    @property
    def root_device(self) -> torch.device:
        """The device with an index, which DeepSpeed needs on a CPU as well."""
        device = super().root_device
        return torch.device("cpu", 0) if device.type == "cpu" else device


def reduce_by_gloo() -> None:
    """Let several processes of a CPU reduce by gloo. DeepSpeed would compile an all-reduce of its own, which
    takes a minute and needs a compiler; gloo is as fast."""
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def forget_stage_3() -> None:
    """Clear what `destroy()` leaves of stage 3: a list of models, and the cache of a method, by its model.

    https://github.com/deepspeedai/DeepSpeed/issues/7204
    """
    from deepspeed.runtime.zero import parameter_offload
    from deepspeed.runtime.zero.partitioned_param_coordinator import PartitionedParameterCoordinator

    parameter_offload.FWD_MODULE_STACK.clear()
    for method in vars(PartitionedParameterCoordinator).values():
        for cell in getattr(method, "__closure__", None) or ():  # of the function that wraps the cached one
            if hasattr(cell.cell_contents, "cache_clear"):
                cell.cell_contents.cache_clear()
