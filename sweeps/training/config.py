"""How a trial runs, and a ladder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sweeps.common.errors import CannotTrain, UserError
from sweeps.common.formatting import count
from sweeps.common.objective import Mode, Objective
from sweeps.common.settings import Settings, flag, setting
from sweeps.common.yaml_values import ParamValue
from sweeps.kinds.trainable import LightningTrainable, Precision, Trainable

Strategy = Literal[
    "auto",
    "single",
    "ddp",
    "ddp_find_unused_parameters_true",
    "fsdp",
    "fsdp_full",
    "deepspeed_stage_1",
    "deepspeed_stage_2",
    "deepspeed_stage_2_offload",
    "deepspeed_stage_3",
    "deepspeed_stage_3_offload",
]

MAX_BAD_PCT = 10.0
"""Percentage of raw files that a preparation may leave out as corrupt."""


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """How one trial is trained; its hyperparameters are Params."""

    max_epochs: int = setting(27, least=1)
    """Epochs to train; in a sweep, those of a trial that is never pruned."""
    metric: str | None = None
    """Metric that decides which epoch, and in a sweep which trial, is the best (default: METRIC of the
    trainable)."""
    mode: Mode | None = None
    """Whether a small or a large metric is better (default: MODE of the trainable)."""
    seed: int = setting(0, least=0, most=2**32 - 1)
    """Seed of weights, shuffling and augmentation; in a sweep, of the proposals too."""
    precision: Precision = "auto"
    """Numerical precision; auto: that of a project's own settings, else fp16 on a GPU, fp32 on a CPU."""
    strategy: Strategy = "auto"
    """How workers train one model; auto: single if the model fits on one device, else ZeRO stage 2, with
    offload on a single GPU."""
    compile: bool = False
    """Compile the model with torch.compile: it takes about a minute (in a sweep, once for all trials of the
    same shapes), then steps are faster on most GPUs."""
    devices: int = setting(1, least=1)
    """GPUs of each PC, or processes on a PC without one (default: what torchrun or Slurm has started, else
    1)."""
    num_nodes: int = setting(1, least=1)
    """PCs that train together, each started by torchrun or Slurm (default: as these say, else 1)."""
    micro_batch: int | None = setting(None, least=1)
    """Rows that a worker computes at once; gradients are accumulated over its share of the batch (default:
    the whole share)."""
    epoch_steps: int | None = setting(None, least=1)
    """Steps of the optimizer in an epoch, for data without an end or with very long epochs; each epoch begins
    with the first batch (default: all batches)."""
    check_val_every_n_epoch: int | None = setting(None, least=1)
    """Passes over the training data between two validations. Together they are one epoch of a trial, which
    --max-epochs counts (default: as the project's own Trainer has it, else 1)."""
    val_check_interval: int | float | None = setting(None, above=0)
    """Batches between two validations, or a share of the training data, as 0.25. They are one epoch of a
    trial, and the next epoch reads on from there (default: as the project's own Trainer has it, else all)."""
    steps_per_epoch: int | None = setting(None, least=1)
    """Steps per epoch and batches per validation, at most (default: all)."""
    threads: int | None = setting(1, least=1)
    """PyTorch threads per worker (default: the PC's cores divided among its workers)."""

    @property
    def objective(self) -> Objective:
        """Metric and mode by which epochs and trials are compared; both must be set."""
        assert self.metric is not None, "the plan or the run sets it"
        assert self.mode is not None
        return Objective(self.metric, self.mode)

    @property
    def epoch_in_words(self) -> str:
        """What an epoch is, where it is no pass over the training data; else ""."""
        if self.epoch_steps is not None:
            return f"{count(self.epoch_steps, 'step')} of the optimizer, then a validation (epoch_steps)"
        if (every := self.check_val_every_n_epoch) is not None and every > 1:
            return f"{every} passes over the data, then a validation (check_val_every_n_epoch)"
        if (interval := self.interval) is None:
            return ""
        part = (
            f"{interval:g} of the training data" if isinstance(interval, float) else f"{interval:,} batches"
        )
        return f"{part}, then a validation (val_check_interval); the next epoch reads on from there"

    @property
    def interval(self) -> int | float | None:
        """Batches of an epoch, or below 1 a share of a pass; None where it is a whole pass."""
        is_whole = isinstance(self.val_check_interval, float) and self.val_check_interval == 1
        return None if is_whole else self.val_check_interval

    @property
    def workers(self) -> int:
        """Processes that train together."""
        return self.devices * self.num_nodes

    def settings(self) -> dict[str, Any]:
        """The settings for params.yaml; without devices and num_nodes for a single worker."""
        alone = {"devices", "num_nodes"} if self.workers == 1 else set()
        return {name: value for name, value in dataclasses.asdict(self).items() if name not in alone}


VALIDATION = ("check_val_every_n_epoch", "val_check_interval", "epoch_steps")
"""Settings of FitConfig of which one at most says what an epoch is."""


def own_settings(asked: FitConfig, trainable: Trainable, params: Any) -> dict[str, Any]:
    """The settings that are left to a trainable's own code or files, by name.

    Raises:
        UserError: they do not fit.
    """
    try:
        own, default = dict(trainable.fit_settings(params)), FitConfig()
    except CannotTrain as error:
        raise UserError(f"{trainable.name}: {error}") from None
    given = [name for name in VALIDATION if getattr(asked, name) is not None]
    if len(given) > 1:
        raise UserError(f"{' and '.join(map(flag, given))}: each says what an epoch is; give one of them")
    if given:
        own = {name: value for name, value in own.items() if name not in VALIDATION}
    found = {name: value for name, value in own.items() if getattr(asked, name) == getattr(default, name)}
    interval = found.get("val_check_interval", asked.val_check_interval)
    if isinstance(interval, float) and interval > 1:
        raise UserError(
            f"val_check_interval {interval:g}: must be a whole number of batches, or a share of the training "
            "data, at most 1.0"
        )
    return found


FIT_SETTINGS = tuple(each.name for each in dataclasses.fields(FitConfig))
"""Names that `fit` of a params.yaml may hold."""


@dataclass(frozen=True, kw_only=True)
class LadderConfig(Settings):
    """Settings of a ladder."""

    trainable: LightningTrainable
    """What is trained."""
    params: Mapping[str, ParamValue]
    """Given hyperparameters; the others have their defaults."""
    seconds: float = setting(12.0, above=0, group="Measurement", metavar="SECONDS")
    """Time to measure each rung, in seconds."""
    name: str | None = None
    """Name of the ladder's folder (default: ladder-, the trainable and the time of day)."""
    results_dir: str = setting("results", metavar="FOLDER")
    """Folder of all results."""

    @property
    def folder(self) -> Path:
        return Path(self.results_dir).expanduser() / str(self.name)
