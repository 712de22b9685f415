"""What the first steps of a point have shown; the driver reads it without PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sweeps.common.yaml_values import ParamValue


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A point, and whether and how it trains on a device."""

    trainable: str
    params: Mapping[str, ParamValue]
    """Swept hyperparameters."""
    pc: str
    device: str
    """Name of the GPU; "" on a CPU."""
    device_gb: float = 0.0
    """Memory of the GPU; 0 on a CPU."""
    reason: str = ""
    """Why it does not train as it is; of one that ran out of memory, how it goes on, or why it can't."""
    traceback: str = ""
    """Of an error of the user's code."""
    is_out_of_memory: bool = False
    is_infeasible: bool = False
    """Whether it ran out of memory, and goes on with no smaller part of its batch."""
    memory_gb: float = 0.0
    """At its peak: of the GPU, else of the process."""
    epoch_s: float | None = None
    """Seconds that an epoch may take; None where the data does not say how many batches it has."""
    checkpoint_bytes: int = 0
    """0 where that is not known."""
    is_last: bool = False
    """Whether its process can try no further point: the GPU computes no more in it."""

    @property
    def is_broken(self) -> bool:
        """Whether it went wrong for another reason than memory."""
        return bool(self.reason) and not self.is_out_of_memory
