"""The seed of one run, and of one epoch of it."""

from __future__ import annotations

import os
import random

import numpy as np
import torch


def seed_of_run() -> int:
    """The seed that this run was given, as Lightning's `seed_everything` leaves it for other processes; 0
    where there is none. `build_data` finds it there, and no epoch changes it.
    """
    return int(os.environ.get("PL_GLOBAL_SEED", 0))


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
