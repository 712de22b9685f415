"""What every trial of a sweep has in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeps.common.yaml_values import ParamValue
from sweeps.storage.data_source import DataSource, Say
from sweeps.storage.protocol import Storage
from sweeps.training.config import FitConfig

SAVE_FAULT = "save_fault"
"""In the result that Tune keeps with a checkpoint: why it could not be written, as {"reason": str,
"is_of_storage": bool}, and with the latter "pc" and "node", name and Ray's id of the PC that could not. A
trial that is done has no next step to tell of it."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all trials of a sweep have in common."""

    trainables: Mapping[str, str]
    """Trainable, as it was named to the sweep, to its module path."""
    storage: Storage
    """Where checkpoints are written and found: all that a trial needs of the sweep's folder."""
    fit: FitConfig
    max_failures: int
    """Times that a trial which raised is tried again."""
    checkpoint_epochs: int | None
    """Epochs between checkpoints; None: as often as they cost under 2 % of the training."""
    prepared: Mapping[tuple[str, tuple[ParamValue, ...]], DataSource] = field(default_factory=dict)
    """Trainable and values of its PREPARE_PARAMS to how a PC comes by the prepared data."""

    def data_of(self, trainable: str, module: Any, params: Any, say: Say = print) -> Path | None:
        """The folder on this PC of the prepared data of these params, and `say` is told where it had to be
        copied first; None for a trainable that has none. Raises PCUnfit where this PC can't have it."""
        values = tuple(
            getattr(params, hyperparameter) for hyperparameter in getattr(module, "PREPARE_PARAMS", ())
        )
        source = self.prepared.get((trainable, values))
        return None if source is None else source.here(say)
