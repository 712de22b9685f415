"""The card, its driver, and the versions that the figures are of."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from benchmarks._measure import version_of

PACKAGES = ("torch", "lightning", "ray", "deepspeed", "numpy")


def why_none() -> str:
    """Why there is no GPU for PyTorch here; "" where there is one."""
    import torch

    if torch.cuda.is_available():
        return ""
    built = torch.version.cuda
    build = "a build for CPUs" if built is None else f"built for CUDA {built}"
    return f"PyTorch {torch.__version__} ({build}) finds no CUDA device"


def about() -> dict[str, Any]:
    """Card, memory_gb, driver, cuda and the versions of packages."""
    import torch

    found: dict[str, Any] = {name: version_of(name) for name in PACKAGES}
    if not torch.cuda.is_available():
        return {"card": "no GPU", **found}
    properties = torch.cuda.get_device_properties(0)
    return {
        "card": properties.name,
        "cards": torch.cuda.device_count(),
        "memory_gb": round(properties.total_memory / 1e9, 1),
        "driver": _driver(),
        "cuda": torch.version.cuda,
        "allocator": os.environ.get("PYTORCH_ALLOC_CONF", ""),
        **found,
    }


def _driver() -> str:
    with contextlib.suppress(Exception):  # NVML is not in every container
        import pynvml

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    return "unknown"
