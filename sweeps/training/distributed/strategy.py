"""Precision and strategy: in what numbers a trial computes, and how its workers share it.

ZeRO stage 1 shards the optimizer's state over the workers, 2 the gradients too, 3 the weights as well
(Rajbhandari et al., 2020, https://arxiv.org/abs/1910.02054); FSDP does as much with PyTorch's own means
(https://pytorch.org/docs/stable/fsdp.html). All of them run on the CPU too, over gloo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, Strategy
from torch import nn
from torch.optim import Optimizer

from sweeps.common.errors import CannotTrain
from sweeps.training.config import FitConfig
from sweeps.training.distributed import deepspeed

STATE_BYTES = 16
"""Of a weight that trains: itself, its gradient and two moments of Adam, each fp32."""
FITS = 0.7
"""Share of a GPU's memory that the state of a model may take; the rest is for what a batch needs."""


@dataclass(frozen=True)
class Choice:
    """How a trial runs, and why."""

    strategy: str
    precision: str
    why_strategy: str
    why_precision: str

    @property
    def in_words(self) -> str:
        """Both, each with its reason."""
        return f"{self.strategy} ({self.why_strategy}), {self.precision} ({self.why_precision})"


@dataclass(frozen=True)
class Device:
    """What one worker computes on."""

    memory_bytes: int | None
    """Of the GPU; None is a CPU."""
    has_bf16: bool
    """Fast bf16: Ampere and newer."""

    @classmethod
    def here(cls) -> Device:
        """This process's."""
        if not torch.cuda.is_available():
            return cls(None, True)
        return cls(
            torch.cuda.get_device_properties(0).total_memory,
            torch.cuda.is_bf16_supported(including_emulation=False),
        )


def choose(config: FitConfig, trained_weights: int, device: Device) -> Choice:
    """What `auto` means here, and what was asked, checked.

    Args:
        config: how the trial shall run.
        trained_weights: numbers that the optimizer changes.
        device: what each worker has.

    Raises:
        CannotTrain: what was asked can't run here.
    """
    precision, why_precision = choose_precision(config.precision, device)
    strategy, why_strategy = _strategy(config, trained_weights, device)
    return Choice(strategy, precision, why_strategy, why_precision)


def choose_precision(asked: str, device: Device) -> tuple[str, str]:
    """Lightning's name of a precision, and why that one.

    Raises:
        CannotTrain: the device has it not.
    """
    on_cpu = device.memory_bytes is None
    if asked == "auto":
        return ("32-true", "a CPU has no fast fp16") if on_cpu else ("16-mixed", "there is a GPU")
    if asked == "16-mixed" and on_cpu:
        raise CannotTrain(
            "precision 16-mixed: fp16 is of GPUs, and there is none; a CPU takes 32, bf16-mixed"
        )
    if asked == "bf16-mixed" and not device.has_bf16:
        raise CannotTrain(
            "precision bf16-mixed: this GPU is older than Ampere and has none; it takes 32, 16-mixed"
        )
    return {"32": "32-true"}.get(asked, asked), "as asked"


def _strategy(config: FitConfig, trained_weights: int, device: Device) -> tuple[str, str]:
    asked, workers = config.strategy, config.workers
    if asked == "single" and workers > 1:
        raise CannotTrain(f"strategy single: {workers} workers can't be one; give ddp or deepspeed_stage_2")
    if asked != "auto":
        return asked, "as asked"
    if workers > 1:
        return "deepspeed_stage_2", f"{workers} workers share optimizer and gradients"
    needed = trained_weights * STATE_BYTES
    if device.memory_bytes is not None and needed > FITS * device.memory_bytes:
        return "deepspeed_stage_2_offload", (
            f"weights, gradients and Adam take {needed / 1e9:.3g} GB, "
            f"the GPU has {device.memory_bytes / 1e9:.3g} GB"
        )
    return "single", "one device, and the model fits"


def build(choice: Choice, model: nn.Module) -> Strategy | str:
    """The strategy for Lightning's Trainer.

    Args:
        choice: by `choose`.
        model: FSDP wraps its blocks: what stands in its lists and sequences.

    Raises:
        ModuleNotFoundError: DeepSpeed is not installed.
    """
    name = choice.strategy
    if name == "single":
        return "auto"
    if name == "ddp":
        return DDPStrategy()
    if name.startswith("fsdp"):
        sharding: Any = "FULL_SHARD" if name == "fsdp_full" else "SHARD_GRAD_OP"
        return _Fsdp(sharding_strategy=sharding, state_dict_type="sharded", auto_wrap_policy=_blocks(model))
    stage, offloads = int(name.split("_")[2]), name.endswith("_offload")
    return deepspeed.build(stage, offloads)


class _Fsdp(FSDPStrategy):
    """FSDP, on a CPU too: a subclass, since Lightning refuses its own there."""

    def _setup_model(self, model: nn.Module) -> nn.Module:
        # Lightning hands a device's index on, and a CPU has none: FSDP then looks for a GPU.
        if self.root_device.type != "cpu":
            return super()._setup_model(model)
        from torch.distributed.fsdp import FullyShardedDataParallel as Fsdp

        return Fsdp(
            model,
            mixed_precision=self.mixed_precision_config,
            sharding_strategy=self.sharding_strategy,
            device_id=self.root_device,
            **self.kwargs,
        )

    def setup_optimizers(self, trainer: pl.Trainer) -> None:
        """Take the model's optimizers."""
        super().setup_optimizers(trainer)
        if self.precision_plugin.precision == "16-mixed":
            refuse_fused(self.optimizers)


def refuse_fused(optimizers: Iterable[Optimizer]) -> None:
    """Refuse what would let the shards of FSDP drift apart in fp16.

    A worker that finds an overflow in its shard tells the others, who then leave the step out as well, in
    `ShardedGradScaler.unscale_`: it is not called for a fused optimizer (PyTorch 2.13).

    Raises:
        CannotTrain: one is fused.
    """
    if any(group.get("fused") for optimizer in optimizers for group in optimizer.param_groups):
        raise CannotTrain(
            "strategy fsdp in 16-mixed: the model's optimizer is fused, and then its workers do not hear of "
            "each other's overflows. Make it without fused=True, or give --precision bf16-mixed or 32"
        )


def _blocks(model: nn.Module) -> Callable[..., bool]:
    """The policy of FSDP that shards each block by itself: what stands in an outermost list or sequence."""
    blocks = set(_outermost(model))

    def wraps(module: nn.Module, recurse: bool, nonwrapped_numel: int) -> bool:
        return True if recurse else module in blocks

    return wraps


def _outermost(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        if not isinstance(module, nn.ModuleList | nn.Sequential):
            yield from _outermost(child)
        elif next(child.parameters(), None) is not None:
            yield child


def is_sharded(strategy: str) -> bool:
    """Whether each worker writes its own part of a checkpoint, that only as many can read."""
    return strategy.startswith(("fsdp", "deepspeed"))


def refuse_other_workers(written_by: tuple[str, int], now: tuple[str, int]) -> None:
    """Refuse to go on from a checkpoint that these workers can't read.

    Args:
        written_by: strategy and number of workers that wrote it.
        now: and those that shall go on.

    Raises:
        CannotTrain: they can't.
    """
    (before, workers_before), (strategy, workers) = written_by, now
    if not is_sharded(before) and not is_sharded(strategy):
        return
    if (before, workers_before) != (strategy, workers):
        raise CannotTrain(
            f"the checkpoint is of strategy {before} with {workers_before} worker(s), each with its own part "
            f"of it; strategy {strategy} with {workers} can't read that: go on with what it was written by"
        )


def mean_over_workers(trainer: pl.Trainer, metrics: Mapping[str, float]) -> dict[str, float]:
    """Metrics as all workers see them: the mean, which leaves what the model has synced as it is."""
    if trainer.world_size == 1:
        return dict(metrics)
    names = sorted(metrics)
    values = torch.tensor([metrics[name] for name in names], device=trainer.strategy.root_device)
    reduced = trainer.strategy.reduce(values, reduce_op="mean").tolist()
    return dict(zip(names, reduced, strict=True))
