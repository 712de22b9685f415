"""What every trial of a sweep has in common, and the score of the winner on the test rows."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeps.common import imports
from sweeps.common.param_types import build_params, held, hints_of
from sweeps.common.yaml_values import ParamValue
from sweeps.kinds import registry
from sweeps.kinds.trainable import Description, Trainable, as_lightning
from sweeps.space.point import Point
from sweeps.storage.data_source import PreparedData, Say
from sweeps.storage.protocol import Storage
from sweeps.training.config import FitConfig


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all trials of a sweep have in common."""

    trainables: Mapping[str, Description]
    """Name of each trainable in the sweep to its description."""
    storage: Storage
    """Store of the checkpoints: all that a trial needs of the sweep's folder."""
    sweep: str = ""
    """Name of the sweep, by which Ray's pages and `sweeps pcs status` tell whose process one is."""
    fit: FitConfig
    max_failures: int
    """Retries of a trial that raised."""
    checkpoint_epochs: int | None
    """Epochs between checkpoints; None: as often as keeps their cost under 2 % of the training."""
    stop_grace_s: float = 60.0
    """Seconds that processes of a training have to end in order."""
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
        names = trainable.prepare_params
        values = tuple(held(getattr(params, name), hints_of(trainable.params_class)[name]) for name in names)
        source = self.prepared.get((trainable.name, values))
        return None if source is None else source.here(say)


def test_winner(
    job: Job, point: Point, seed: int, micro_batch: int | None, files: Mapping[str, bytes]
) -> dict[str, float]:
    """Score weights on the test rows, in a process with the resources of a trial.

    With the seed that trained them: a data module that draws its split at random draws the same one. And with
    the rows at once that fitted in memory then.

    Args:
        files: those of the weights, by name: this PC may not see the folder of the sweep.
    """
    with imports.fast():
        from sweeps.training import torch_state  # with PyTorch, which the driver does not load
        from sweeps.training.checkpoints import trained_model
    torch_state.seed_again(0)  # as in a trial
    trainable = as_lightning(registry.load(job.trainables[point.trainable]))
    params = build_params(trainable.params_class, {**point.fixed, **point.params})
    data = job.data_of(trainable, params)
    fit = job.fit_of({"seed": seed, "micro_batch": micro_batch})
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        return trained_model.score_test_rows(trainable, params, fit, Path(folder), prepared=data)
