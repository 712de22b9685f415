"""Precision and strategy of a run, and torch.compile, whose code all trials of a PC share.

ZeRO stage 1 shards the optimizer's state among the workers, 2 the gradients too, 3 the weights as well
(Rajbhandari et al., 2020, https://arxiv.org/abs/1910.02054); FSDP is PyTorch's own counterpart
(https://pytorch.org/docs/stable/fsdp.html). All of them also run on a CPU, over gloo.
"""

from __future__ import annotations

import os
import shutil
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DDPStrategy, Strategy
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from sweeps.common.errors import CannotTrain
from sweeps.common.formatting import count
from sweeps.common.imports import missing
from sweeps.common.local_dirs import cache_dir
from sweeps.kinds.trainable import IN_LIGHTNING
from sweeps.training import torch_internals
from sweeps.training.config import FitConfig
from sweeps.training.distributed import deepspeed_internals
from sweeps.training.lightning_internals import FsdpStrategy

STATE_BYTES = 16
"""Bytes for each trained weight: the weight, its gradient and two moments of Adam, each fp32."""
FITS = 0.7
"""Share of a GPU's memory that the state of a model may take; the rest is for the batch."""
CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
COMPILED = "compiled"
"""Folder in the user's cache: it survives a restart, unlike PyTorch's default in /tmp."""
COMPILABLE = (
    *("single", "ddp", "ddp_find_unused_parameters_true"),
    *("deepspeed_stage_1", "deepspeed_stage_2", "deepspeed_stage_2_offload"),
)
"""Strategies that do not shard weights."""


@dataclass(frozen=True)
class Choice:
    """Strategy and precision of a run, each with its reason."""

    strategy: str
    precision: str
    why_strategy: str
    why_precision: str

    @property
    def in_words(self) -> str:
        return f"{self.strategy} ({self.why_strategy}), {self.precision} ({self.why_precision})"


@dataclass(frozen=True)
class Device:
    """The device of one worker."""

    memory_bytes: int | None
    """Memory of the GPU; None on a CPU."""
    has_bf16: bool
    """Whether it computes bf16 fast, as Ampere and newer GPUs do."""

    @classmethod
    def here(cls) -> Device:
        """The device of this process."""
        if not torch.cuda.is_available():
            return cls(None, True)
        return cls(
            torch.cuda.get_device_properties(0).total_memory,
            torch.cuda.is_bf16_supported(including_emulation=False),
        )


def choose_for_model(model: nn.Module, config: FitConfig) -> Choice:
    """`choose` for a model on the device of this process. Layers that its hooks make later are not counted,
    nor those whose shapes the first batch decides."""
    known = (weight for weight in model.parameters() if not is_lazy(weight))
    trained = sum(weight.numel() for weight in known if weight.requires_grad)
    return choose(config, trained, Device.here())


def choose(config: FitConfig, trained_weights: int, device: Device) -> Choice:
    """Replace `auto` by a strategy and a precision, and check those that were set.

    Args:
        trained_weights: number of weights that the optimizer changes.

    Raises:
        CannotTrain: a setting can't run on the device, or with so many workers.
    """
    precision, why_precision = choose_precision(config.precision, device)
    strategy, why_strategy = _strategy(config, trained_weights, device)
    return Choice(strategy, precision, why_strategy, why_precision)


def choose_precision(asked: str, device: Device) -> tuple[str, str]:
    """Lightning's name of a precision, and the reason for it.

    Raises:
        CannotTrain: the device can't compute in it.
    """
    on_cpu = device.memory_bytes is None
    if asked == "auto":
        return ("32-true", "a CPU has no fast fp16") if on_cpu else ("16-mixed", "there is a GPU")
    if asked == "16-mixed" and on_cpu:
        raise CannotTrain("precision 16-mixed: fp16 needs a GPU, and this PC has none; give 32 or bf16-mixed")
    if asked == "bf16-mixed" and not device.has_bf16:
        raise CannotTrain(
            "precision bf16-mixed: this GPU is older than Ampere and has no bf16; give 32 or 16-mixed"
        )
    return IN_LIGHTNING.get(asked, asked), "as asked"


def _strategy(config: FitConfig, trained_weights: int, device: Device) -> tuple[str, str]:
    asked, workers = config.strategy, config.workers
    if asked == "single" and workers > 1:
        raise CannotTrain(f"strategy single: takes one worker, not {workers}; give ddp or deepspeed_stage_2")
    lacks_deepspeed = missing("deepspeed", "deepspeed")
    if asked.startswith("deepspeed") and lacks_deepspeed:
        raise CannotTrain(f"strategy {asked}: {lacks_deepspeed}")
    if asked != "auto":
        return asked, "as asked"
    if workers > 1:
        if lacks_deepspeed:
            return "ddp", lacks_deepspeed
        return "deepspeed_stage_2", f"{workers} workers shard the optimizer's state and the gradients"
    needed = trained_weights * STATE_BYTES
    if device.memory_bytes is not None and needed > FITS * device.memory_bytes:
        why = (
            f"weights, gradients and Adam's state take {needed / 1e9:.3g} GB, "
            f"the GPU has {device.memory_bytes / 1e9:.3g} GB"
        )
        if lacks_deepspeed:
            return "single", f"{why}; to keep that state in the PC's memory, {lacks_deepspeed}"
        return "deepspeed_stage_2_offload", why
    return "single", "one device, and the model fits"


def build_strategy(choice: Choice, model: nn.Module) -> Strategy | str:
    """The strategy for Lightning's Trainer; FSDP shards the members of the model's lists and sequences.

    Raises:
        ModuleNotFoundError: DeepSpeed is not installed.
    """
    name = choice.strategy
    if name == "single":
        return "auto"
    if name.startswith("ddp"):
        return DDPStrategy(find_unused_parameters=name == "ddp_find_unused_parameters_true")
    if name.startswith("fsdp"):
        sharding: Any = "FULL_SHARD" if name == "fsdp_full" else "SHARD_GRAD_OP"
        return _Fsdp(sharding_strategy=sharding, state_dict_type="sharded", auto_wrap_policy=_blocks(model))
    stage, offloads = int(name.split("_")[2]), name.endswith("_offload")
    return deepspeed_internals.build_zero(stage, offloads)


class _Fsdp(FsdpStrategy):
    """FSDP that gives its memory back."""

    def setup_optimizers(self, trainer: pl.Trainer) -> None:
        super().setup_optimizers(trainer)
        if self.precision_plugin.precision == "16-mixed":
            refuse_fused(self.optimizers)

    def release(self) -> None:
        """Let the weights go, which FSDP would keep as long as this process runs."""
        if self.model is not None:
            torch_internals.free_shards(self.model)


def release(strategy: Strategy) -> None:
    """Give back the memory that a strategy takes beyond the end of its run, which can't be saved after it."""
    if isinstance(strategy, _Fsdp | deepspeed_internals.Zero):
        try:
            strategy.release()
        except Exception:  # of DeepSpeed, CUDA or NCCL: the run may have broken off anywhere
            traceback.print_exc()


def check_devices(devices: int, gpus: int) -> None:
    """Refuse more devices than the GPUs that this process may use; 0 GPUs: a CPU takes any number of workers.

    Raises:
        CannotTrain: there are too few GPUs.
    """
    if 0 < gpus < devices:
        raise CannotTrain(f"devices {devices}: this process can use {count(gpus, 'GPU')}")


def refuse_fused(optimizers: Iterable[Optimizer]) -> None:
    """Refuse fused optimizers, with which the shards of FSDP drift apart in fp16.

    After an overflow in one shard all workers must skip the step, which `ShardedGradScaler.unscale_` sees to:
    PyTorch 2.13 does not call it for a fused optimizer.

    Raises:
        CannotTrain: an optimizer is fused.
    """
    if any(group.get("fused") for optimizer in optimizers for group in optimizer.param_groups):
        raise CannotTrain(
            "strategy fsdp in 16-mixed: the model's optimizer is fused, so that a worker does not skip the "
            "step when another one overflows. Build it without fused=True, or give --precision bf16-mixed "
            "or 32"
        )


def _blocks(model: nn.Module) -> Callable[..., bool]:
    """FSDP's wrap policy: shard each member of an outermost module list or sequence by itself."""
    blocks = cache(lambda: set(_outermost(model)))  # when it wraps: the model's hooks may make layers before
    return lambda module, recurse, nonwrapped_numel: recurse or module in blocks()


def _outermost(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        if not isinstance(module, nn.ModuleList | nn.Sequential):
            yield from _outermost(child)
        elif next(child.parameters(), None) is not None:
            yield child


def mean_over_workers(trainer: pl.Trainer, metrics: Mapping[str, float]) -> dict[str, float]:
    """The mean of each metric of the first worker over all workers that have it: with `rank_zero_only` it has
    it alone. Metrics that the model has synced stay as they are."""
    if trainer.world_size == 1:
        return dict(metrics)
    names = trainer.strategy.broadcast(sorted(metrics))
    rows = [[metrics.get(name, 0.0) for name in names], [float(name in metrics) for name in names]]
    sums, workers = trainer.strategy.reduce(
        torch.tensor(rows, device=trainer.strategy.root_device), reduce_op="sum"
    )
    return dict(zip(names, (sums / workers).tolist(), strict=True))


def check_compile(strategy: str) -> None:
    """Check that a model can be compiled here.

    Raises:
        CannotTrain: the strategy shards weights, or there is no compiler.
    """
    if strategy not in COMPILABLE:
        raise CannotTrain(
            f"compile: strategy {strategy} shards the weights; use one of {', '.join(COMPILABLE)}, or no "
            "--compile"
        )
    names = ("CC", "gcc", "clang") if torch.cuda.is_available() else ("CXX", "g++", "clang++")
    variable, *compilers = names
    if not (os.environ.get(variable) or any(map(shutil.which, compilers))):
        raise CannotTrain(
            f"compile: PyTorch needs a compiler ({' or '.join(compilers)}, or ${variable}), and there is "
            f"none: apt-get install {compilers[0]}"
        )


def compile_model(model: pl.LightningModule, mode: str | None = None) -> None:
    """Compile the model's forward in place, so that its weights keep their names; in a mode of torch.compile.

    Only the forward: Dynamo of PyTorch 2.13 fails on `self.log` in Lightning's steps. Without the optimizer's
    step no guard holds learning rate or weight decay: trials that differ in those compile once.
    """
    os.environ.setdefault(CACHE_VARIABLE, str(cache_dir() / COMPILED))
    # After eight shapes PyTorch would silently stop compiling in this process; what earlier trials have
    # compiled is loaded from the cache in a second.
    torch.compiler.reset()
    has_forward = is_overridden("forward", model, pl.LightningModule)
    for module in [model] if has_forward else model.children():  # else its steps call its children
        # Not `module.compile()`: it compiles the call, and with DDP and ZeRO a call is a whole step.
        module.forward = torch.compile(_in_a_frame(module.forward), mode=mode)


def _in_a_frame(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Add a frame of this file: PyTorch compiles no call whose first frame is its own (nn.Sequential)."""

    def call(*inputs: Any, **named: Any) -> Any:
        return forward(*inputs, **named)

    return call
