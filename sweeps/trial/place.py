"""Where a trial trains: PC, process and GPU."""

from __future__ import annotations

import os
import platform
from typing import Any

import ray
import torch


def here() -> dict[str, Any]:
    """Of this process."""
    gpu = f"{gpu_name()} #{','.join(map(str, ids))}" if (ids := ray.get_gpu_ids()) else ""
    return {"pc": platform.node(), "pid": os.getpid(), "gpu": gpu}


def gpu_name() -> str:
    """Name of this process's GPU; "" without one."""
    return torch.cuda.get_device_name(0) if ray.get_gpu_ids() else ""
