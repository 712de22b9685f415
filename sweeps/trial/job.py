"""What every trial of a sweep has in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeps.common.yaml_values import ParamValue
from sweeps.kinds.trainable import Description, Trainable
from sweeps.storage.data_source import PreparedData, Say
from sweeps.storage.protocol import Storage
from sweeps.training.config import FitConfig

CONTEXT_GB = 0.5
"""Of a GPU's memory, taken by CUDA for each process: 0.3 to 0.5 GB, by GPU and driver."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all trials of a sweep have in common."""

    trainables: Mapping[str, Description]
    """Name of each trainable in the sweep to its description."""
    storage: Storage
    """Store of the checkpoints: all that a trial needs of the sweep's folder."""
    fit: FitConfig
    max_failures: int
    """Retries of a trial that raised."""
    checkpoint_epochs: int | None
    """Epochs between checkpoints; None: as often as keeps their cost under 2 % of the training."""
    other_metrics: tuple[str, ...] = ()
    """Metrics that each epoch must have beside that of `fit`: of further objectives and of constraints."""
    is_bound_to_share: bool = False
    """Whether a process that has a share of a GPU can have no more of its memory than that share."""
    prepared: Mapping[tuple[str, tuple[ParamValue, ...]], PreparedData] = field(default_factory=dict)
    """Trainable and values of its PREPARE_PARAMS to the source of the prepared data."""

    def fit_of(self, config: Mapping[str, Any]) -> FitConfig:
        """The settings of one trial, by its config of `SweepTrial`; in a preflight that has a few `steps`."""
        rows = config.get("micro_batch") or self.fit.micro_batch
        found = dataclasses.replace(self.fit, seed=config["seed"], micro_batch=rows)
        if steps := config.get("steps"):
            steps = min(steps, found.steps_per_epoch or steps)
            return dataclasses.replace(found, max_epochs=1, steps_per_epoch=steps)
        return found

    def data_of(self, trainable: Trainable, params: Any, say: Say = print) -> Path | None:
        """The folder of the prepared data on this PC, or None for a trainable without any; a copy is reported
        by `say`.

        Raises:
            PCUnfit: the data can't be brought to this PC.
        """
        values = tuple(getattr(params, name) for name in trainable.prepare_params)
        source = self.prepared.get((trainable.name, values))
        return None if source is None else source.here(say)
