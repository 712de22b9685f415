"""What the process of a trial advances: a Run, which a training with Lightning is, and a group of workers."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import lightning.pytorch as pl
import ray
import torch

from sweeps.common.formatting import GB
from sweeps.common.param_types import build_params
from sweeps.kinds.trainable import LightningTrainable
from sweeps.storage.data_source import Say
from sweeps.training.distributed.cluster_environment import WorkerGroupEnvironment
from sweeps.training.fit_loop import Fit
from sweeps.training.report import Position, Report
from sweeps.trial import leave_request
from sweeps.trial.first_steps import FirstSteps
from sweeps.trial.job import Job


class Run(Protocol):
    """A training that is advanced a report at a time, and can be left and continued."""

    @property
    def why_no_test(self) -> str:
        """Why the model can't be scored on test rows; "" where it can."""

    @property
    def checkpoint_bytes(self) -> int:
        """About what `save` writes; 0 where that is not known."""

    @property
    def can_go_on(self) -> bool:
        """Whether it can be advanced; not after a `save` that only some workers have done."""

    def advance(self) -> Report | Position | None:
        """Train to the end of the next epoch, or to the position inside it where the run is left; None where
        the training has ended."""

    def save(self, folder: Path) -> None:
        """Write into a folder what continues it."""

    def close(self) -> None:
        """Let the training end in order, then `release` it."""

    def release(self) -> None:
        """Drop the training as it is. It can't be saved after it."""


class Host(NamedTuple):
    """Where a worker trains."""

    pc: str
    gpu: str = ""
    """Name of its GPU; "" on a CPU."""
    gpu_ids: str = ""
    gpu_gb: float = 0.0
    """Memory of the GPU."""

    @classmethod
    def here(cls) -> Host:
        """That of this process."""
        if not (ids := ray.get_gpu_ids()):
            return cls(platform.node())
        gpu = torch.cuda.get_device_properties(0)
        return cls(platform.node(), gpu.name, ",".join(map(str, ids)), gpu.total_memory / GB)

    @property
    def in_words(self) -> str:
        """Its GPU."""
        return f"{self.gpu} #{self.gpu_ids}" if self.gpu else ""


class Listening(pl.Callback):
    """Listens again to requests to leave once a training has begun: Lightning takes SIGTERM then, and would
    raise at the end of the step, before anything is saved. It gives the handlers back at the end."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        leave_request.listen()


def build_fit(
    job: Job,
    config: Mapping[str, Any],
    trainable: LightningTrainable,
    checkpoint: Path | None,
    say: Say,
    environment: WorkerGroupEnvironment | None = None,
) -> Fit:
    """The training of a trial, as each of its workers has it; what is copied to this PC for it is told."""
    params = build_params(trainable.params_class, {**config["fixed"], **config["params"]})
    fit = Fit(
        trainable,
        params,
        job.fit_of(config),
        checkpoint,
        prepared=job.data_of(trainable, params, say),
        environment=environment,
        is_to_leave=leave_request.is_asked,
    )
    fit.callbacks.append(Listening())
    if "steps" in config:
        fit.callbacks.append(FirstSteps())
    return fit
