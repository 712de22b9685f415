"""ZeRO by DeepSpeed, under Lightning: on a CPU too, and in steps that Lightning counts."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from lightning.fabric.utilities.seed import reset_seed
from lightning.pytorch.accelerators import CUDAAccelerator
from lightning.pytorch.strategies import DDPStrategy, DeepSpeedStrategy, Strategy
from torch.nn import functional
from torch.overrides import TorchFunctionMode


def build(stage: int, offloads: bool) -> Strategy:
    """The strategy for Lightning's Trainer.

    Args:
        stage: of ZeRO, 1 to 3.
        offloads: whether what is shared is kept in the PC's memory.

    Raises:
        ModuleNotFoundError: DeepSpeed is not installed.
    """
    on_cpu = not torch.cuda.is_available()
    if on_cpu:
        os.environ["DS_ACCELERATOR"] = "cpu"  # before DeepSpeed is imported
    return _Zero(
        stage=stage,
        offload_optimizer=offloads,
        offload_parameters=offloads and stage == 3,
        # Lightning would ask the loader, which may be one that has no batch size.
        logging_batch_size_per_gpu=1,
        logging_level=logging.ERROR,
        process_group_backend="gloo" if on_cpu else None,
    )


class _Zero(DeepSpeedStrategy):
    """ZeRO, on a CPU too: DeepSpeed runs there over gloo, Lightning's strategy refuses it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        assert isinstance(self.config, dict)
        self.config["zero_force_ds_cpu_optimizer"] = False  # an offloaded one would be compiled

    def setup_environment(self) -> None:
        """Join the other workers."""
        if isinstance(self.accelerator, CUDAAccelerator):
            super().setup_environment()
        else:
            DDPStrategy.setup_environment(self)  # all but Lightning's check that there is a GPU

    def setup_distributed(self) -> None:
        """Connect the workers by what DeepSpeed talks over."""
        if isinstance(self.accelerator, CUDAAccelerator):
            super().setup_distributed()
            return
        import deepspeed

        # For several processes of a CPU it would compile an all-reduce of its own, which takes a minute,
        # and fails where there is no compiler; gloo does as well.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        reset_seed()
        self.set_world_ranks()
        place = self.cluster_environment
        assert place is not None
        os.environ.update(
            MASTER_ADDR=place.main_address,
            MASTER_PORT=str(place.main_port),
            RANK=str(self.global_rank),
            WORLD_SIZE=str(self.world_size),
            LOCAL_RANK=str(self.local_rank),
        )
        deepspeed.init_distributed("gloo", distributed_port=place.main_port, verbose=False)

    # Lightning divides a micro-batch's loss by how many make up a step; DeepSpeed would do so again. And it
    # counts them on past the end of an epoch, where Lightning begins anew (DeepSpeed#7439). So Lightning
    # alone decides when a step is due, as by every other strategy, and DeepSpeed is told. (Its setting
    # managed_gradient_accumulation=False, DeepSpeed#8183, forbids stage 3 to overlap computing and talking.)

    @property
    def handles_gradient_accumulation(self) -> bool:
        """Whether not Lightning does."""
        return False

    @contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        """Around each micro-batch that no step follows yet."""
        self.deepspeed_engine.set_gradient_accumulation_boundary(False)
        yield

    def optimizer_step(self, *args: Any, **settings: Any) -> Any:
        """Compute the last micro-batch of a step, then step."""
        self.deepspeed_engine.set_gradient_accumulation_boundary(True)
        return super().optimizer_step(*args, **settings)

    def backward(self, closure_loss: torch.Tensor, *args: Any, **settings: Any) -> torch.Tensor:
        """Compute gradients of a loss that is already a micro-batch's share."""
        return super().backward(closure_loss, *args, scale_wrt_gas=False, **settings)

    def training_step(self, *args: Any, **settings: Any) -> Any:
        """Compute the loss of a micro-batch."""
        with self._batch_norms():
            return super().training_step(*args, **settings)

    def validation_step(self, *args: Any, **settings: Any) -> Any:
        """Score a batch."""
        with self._batch_norms():
            return super().validation_step(*args, **settings)

    def _batch_norms(self) -> AbstractContextManager[Any]:
        is_needed = self.root_device.type == "cpu" and self.precision_plugin.precision != "32-true"
        return _BatchNormsOfFp32Weights() if is_needed else nullcontext()

    @property
    def root_device(self) -> torch.device:
        """With an index, which DeepSpeed asks for, also where there is but one."""
        device = super().root_device
        return torch.device("cpu", 0) if device.type == "cpu" else device


class _BatchNormsOfFp32Weights(TorchFunctionMode):
    """Batch norm computed by fp32 weights, as it is under autocast.

    DeepSpeed casts weights to bf16 and leaves running means in fp32 (DeepSpeed#8066), and a CPU has no
    kernel for that. In bf16 the means would stand still where a batch changes them by less than 1/256.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is functional.batch_norm:
            kwargs |= {k: w.float() for k, w in kwargs.items() if k in ("weight", "bias") and w is not None}
        return func(*args, **kwargs)
