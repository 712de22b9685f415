"""PyTorch's state in a process that trains several trials: its settings, seeds and random numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.backends import cudnn


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


def seed_epoch(seed: int, epoch: int) -> None:
    """Seed an epoch of a run by itself, so that a resumed run repeats shuffling, dropout and augmentation."""
    seed_again(int(np.random.SeedSequence((seed, epoch)).generate_state(1)[0]))


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
