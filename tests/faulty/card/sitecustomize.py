"""A PC with a GPU that is not there: what Ray's workers are told of one, with this folder on $PYTHONPATH.

What a trial takes of it is what its trainable, `tests.faulty.large`, says. PyTorch is imported where it is
needed: Ray gives up a worker that starts slowly.
"""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

PROFILER = "sweeps.training.step_profiler"


def change(step_profiler: Any) -> None:
    """Let what is imported see the card."""
    import torch

    end = step_profiler.Meter.end

    def end_on_card(meter: Any) -> tuple[float, dict[str, float]]:
        seconds, costs = end(meter)
        return seconds, {**costs, "gpu_memory_gb": float(os.environ["TAKES_GB"])}

    step_profiler.Meter.end = end_on_card
    card = SimpleNamespace(name="Card of a test", total_memory=8 * 10**9)
    torch.cuda.get_device_properties = lambda device=None: card


class Changes(MetaPathFinder):
    """Changes the module when it has been imported."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != PROFILER:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        assert spec is not None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            change(module)

        loader.exec_module = exec_module
        return spec


if any("default_worker.py" in word for word in sys.orig_argv):
    sys.meta_path.insert(0, Changes())
