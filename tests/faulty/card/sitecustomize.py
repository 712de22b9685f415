"""A PC with a GPU that is not there: what Ray's workers are told of one, with this folder on $PYTHONPATH.

What a trial takes of it is what its trainable, `tests.faulty.large`, says.
"""

from __future__ import annotations

import os
import sys

if any("default_worker.py" in word for word in sys.orig_argv):
    import torch

    from sweeps.training.profiling import step_profiler

    def _end(meter: step_profiler.Meter) -> tuple[float, dict[str, float]]:
        seconds, costs = _end_without(meter)
        return seconds, {**costs, "gpu_memory_gb": float(os.environ["TAKES_GB"])}

    _end_without = step_profiler.Meter.end
    step_profiler.Meter.end = _end  # type: ignore[method-assign]
    torch.cuda.get_device_name = lambda device=None: "Card of a test"
