"""PyTorch's state in a process that trains several trials: its settings, memory, seeds and random numbers."""

from __future__ import annotations

import gc
import os
import platform
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch.backends import cudnn

from sweeps.common.errors import CannotTrain
from sweeps.training import torch_internals


def _set_default_device(device: torch.device) -> None:
    # Not to None: up to PyTorch 2.8 no one can ask for it afterwards. Each setting makes tensors slower.
    if torch.get_default_device() != device:
        torch.set_default_device(device)


_READ_AND_WRITE: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (torch.get_num_threads, torch.set_num_threads),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    (partial(getattr, cudnn, "benchmark"), partial(setattr, cudnn, "benchmark")),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (partial(getattr, cudnn, "deterministic"), partial(setattr, cudnn, "deterministic")),
    (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    (torch.get_default_device, _set_default_device),
)


class Settings:
    """The settings of PyTorch that a trial may change, as they are when this object is created."""

    def __init__(self) -> None:
        self._values = [read() for read, _ in _READ_AND_WRITE]

    def restore(self) -> None:
        for (_, write), value in zip(_READ_AND_WRITE, self._values, strict=True):
            write(value)


_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""Before PyTorch 2.10 CUDA reads the second one alone (pytorch#183387); 2.9 warns of it where the first one
is not there."""


def use_expandable_segments() -> None:
    """Use expandable segments on the GPU, unless the user has set the allocator, against fragmentation by
    batches of changing size. PyTorch reads the setting once, at the first use of CUDA.

    https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage
    """
    # Windows' driver does not support them, and PyTorch warns. Under WSL the first allocation fails on some
    # cards (pytorch#192330).
    is_supported = sys.platform == "linux" and "microsoft" not in platform.release().lower()
    if is_supported and not any(name in os.environ for name in (*_ALLOCATOR, "PYTORCH_HIP_ALLOC_CONF")):
        os.environ.update(dict.fromkeys(_ALLOCATOR, "expandable_segments:True"))


def free_memory() -> bool:
    """Collect garbage and return the cached GPU memory; whether the GPU still computes in this process.

    After an error in a kernel (of a label out of range, say) each call of CUDA fails as long as the process
    lives: https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html (cudaErrorAssert)
    """
    gc.collect()
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # PyTorch's has no types
        return True
    try:
        torch.cuda.synchronize()  # it raises what a kernel has met, whether or not memory is cached
        torch.cuda.empty_cache()
    except RuntimeError:
        traceback.print_exc()
        return False
    return True


def keep_to_share(share: float, beside_bytes: int) -> None:
    """Give this process no more of its GPU's memory than a share: where it needs more it runs out of memory
    itself, and not another process on that GPU.

    Args:
        share: of the GPU; 1 is the whole.
        beside_bytes: of the share, that the driver takes for the process.
    """
    if share < 1 and torch.cuda.is_available():
        whole = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(max(0.0, share - beside_bytes / whole))


@contextmanager
def recorded_memory(file: Path | None) -> Iterator[None]:
    """Record the GPU's allocations, and write them to `file` for https://pytorch.org/memory_viz, also when
    memory runs out; None records nothing.

    Raises:
        CannotTrain: there is no GPU.
    """
    if file is None:
        yield
        return
    if not torch.cuda.is_available():
        raise CannotTrain("--memory-snapshot: it records the memory of a GPU, but there is none")
    with torch_internals.recorded_allocations(file):
        yield


def seed_stream(*numbers: int) -> None:
    """Seed by the seed of a run and an epoch, say, so that a resumed run repeats shuffling, dropout and
    augmentation. Other numbers give other random numbers."""
    seed_again(int(np.random.SeedSequence(numbers).generate_state(1)[0]))


def seed_again(seed: int) -> None:
    """Seed Python, NumPy and PyTorch after Lightning's `seed_everything` has done so once.

    `torch.manual_seed` also formats the caller's stack three times for devices that do not exist, which takes
    about as long as an epoch of a small model.
    """
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


def random_states() -> dict[str, Any]:
    """The random numbers to come of Python, NumPy and PyTorch, for a checkpoint."""
    states = {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}
    # Where nothing has used the GPU, to ask it would start it.
    is_started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # PyTorch has no type for it
    return states | ({"cuda": torch.cuda.get_rng_state()} if is_started else {})


def restore_random_states(states: dict[str, Any]) -> None:
    """Draw the random numbers that were to come; on a GPU only those of a run that was on a GPU."""
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"].cpu())
    if torch.cuda.is_available() and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].cpu())


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Behind the block, draw the random numbers that were to come before it."""
    before = random_states()
    try:
        yield
    finally:
        restore_random_states(before)


HOOKS_OF_A_RUN = (
    "prepare_data", "setup", "configure_model", "train_dataloader", "val_dataloader", "test_dataloader",
    "on_fit_start", "on_train_start",
)  # fmt: skip
"""Called once in a run, so again after each pause: many projects draw rows for validation in one of them."""


def seed_hooks(owner: object, seed: int) -> None:
    """Let each hook of a run draw the same random numbers in every process, and change none of those to come.

    Those of data all draw the same ones: two hooks that split the same rows at random draw the same split.
    Only the loader of the training rows draws others in each epoch where the Trainer makes it anew
    (`reload_dataloaders_every_n_epochs`).

    Args:
        owner: a model or a data module; of a model that has its own loaders there is no data module.
    """
    if not isinstance(owner, pl.LightningModule | pl.LightningDataModule):
        return
    parent = pl.LightningModule if isinstance(owner, pl.LightningModule) else pl.LightningDataModule
    for name in HOOKS_OF_A_RUN:
        if hasattr(parent, name) and is_overridden(name, owner, parent):
            setattr(owner, name, partial(_seeded, owner, name, getattr(owner, name), seed))


def _seeded(
    owner: Any, name: str, hook: Callable[..., Any], seed: int, /, *arguments: Any, **named: Any
) -> Any:
    epoch = _reloaded_in(owner) if name == "train_dataloader" else 0
    with random_states_kept():
        # Other numbers than those of the epochs; and layers other ones than those of `setup`.
        seed_stream(seed, epoch, 2 if name == "configure_model" else 1)
        return hook(*arguments, **named)


def _reloaded_in(owner: Any) -> int:
    """The epoch for which the Trainer makes a loader anew; 0 where it keeps the first one."""
    try:
        trainer = owner.trainer
    except RuntimeError:  # of a model that no Trainer has yet
        return 0
    return trainer.current_epoch if trainer is not None and trainer.reload_dataloaders_every_n_epochs else 0
