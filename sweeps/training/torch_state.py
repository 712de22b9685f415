"""What a process has for a trial, and what of it outlives one: seeds and settings of PyTorch."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Settings:
    """PyTorch's settings of a process that a trial may change."""

    threads: int
    grad: bool
    dtype: torch.dtype
    deterministic: bool
    cudnn_benchmark: bool
    matmul_precision: str
    cudnn_deterministic: bool
    anomaly: bool
    device: torch.device

    @classmethod
    def now(cls) -> Settings:
        """As they are."""
        return cls(
            threads=torch.get_num_threads(),
            grad=torch.is_grad_enabled(),
            dtype=torch.get_default_dtype(),
            deterministic=torch.are_deterministic_algorithms_enabled(),
            cudnn_benchmark=torch.backends.cudnn.benchmark,
            matmul_precision=torch.get_float32_matmul_precision(),
            cudnn_deterministic=torch.backends.cudnn.deterministic,
            anomaly=torch.is_anomaly_enabled(),
            device=torch.get_default_device(),
        )

    def put_back(self) -> None:
        """As they were."""
        torch.set_num_threads(self.threads)
        torch.set_grad_enabled(self.grad)
        torch.set_default_dtype(self.dtype)
        torch.use_deterministic_algorithms(self.deterministic)
        torch.backends.cudnn.benchmark = self.cudnn_benchmark
        torch.set_float32_matmul_precision(self.matmul_precision)
        torch.backends.cudnn.deterministic = self.cudnn_deterministic
        torch.autograd.set_detect_anomaly(self.anomaly)
        torch.set_default_device(None if self.device.type == "cpu" else self.device)


def seed_again(seed: int) -> None:
    """Seed Python, NumPy and PyTorch, where Lightning's `seed_everything` has done it once.

    `torch.manual_seed` also formats the caller's stack three times for devices that are not there, which
    is most of its time, and an epoch of a small model takes not much more.
    """
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
