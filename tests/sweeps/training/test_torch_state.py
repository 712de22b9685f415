"""PyTorch's state between two trials of a process."""

from __future__ import annotations

import random

import numpy as np
import torch
from lightning.pytorch import seed_everything

from sweeps.training.torch_state import Settings, seed_again


def read() -> tuple[object, ...]:
    return (
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
        torch.get_float32_matmul_precision(),
        torch.is_anomaly_enabled(),
        torch.get_default_device(),
    )


def test_what_a_trial_has_changed_is_as_before() -> None:
    before, settings = read(), Settings()
    torch.set_num_threads(torch.get_num_threads() + 1)
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark
    torch.set_float32_matmul_precision("medium")
    torch.autograd.set_detect_anomaly(True)
    torch.set_default_device("meta")
    changed = read()
    settings.restore()
    assert all(now != then for now, then in zip(changed, before, strict=True))
    assert read() == before


def test_it_seeds_as_lightning_does() -> None:
    def drawn() -> tuple[float, float, float]:
        return random.random(), float(np.random.random()), float(torch.rand(()))

    seed_everything(17, verbose=False)
    expected = drawn()
    assert drawn() != expected
    seed_again(17)
    assert drawn() == expected
