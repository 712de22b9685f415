"""What the first steps of a point have shown; the driver reads it without PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
    failure: Mapping[str, Any] = field(default_factory=dict)
    """The result of a trial that raises so (`failures.failed`); empty where it trains."""
    memory_gb: float = 0.0
    """At its peak: of the GPU, else of the process."""
    epoch_s: float | None = None
    """Seconds that an epoch may take; None where the data does not say how many batches it has."""
    checkpoint_bytes: int = 0
    """0 where none could be written."""
    seconds: float = 0.0
    """That all this took."""

    @property
    def is_out_of_memory(self) -> bool:
        """Whether it is too large for this device as it is."""
        return bool(self.failure.get("is_out_of_memory"))

    @property
    def is_broken(self) -> bool:
        """Whether it went wrong for another reason."""
        return bool(self.failure) and not self.is_out_of_memory
