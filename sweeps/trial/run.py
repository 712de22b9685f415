"""The training of a trial, as its process or one of its workers has it: where that is, how it is built, and
who held the memory of the GPU when it ran out."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as pl
import ray
import torch

from sweeps.common import gpus
from sweeps.common.errors import ProgramFailed, causes
from sweeps.common.formatting import GB
from sweeps.common.gpus import CONTEXT_GB
from sweeps.common.param_types import build_params
from sweeps.kinds.function import FunctionTrainable
from sweeps.kinds.trainable import Trainable, as_lightning
from sweeps.ray_cluster import nodes
from sweeps.storage.data_source import Say
from sweeps.training.distributed.cluster_environment import WorkerGroupEnvironment
from sweeps.training.report import RunHere
from sweeps.training.runs.fit_loop import Fit
from sweeps.training.runs.function_run import FunctionRun
from sweeps.training.step_profiler import Meter
from sweeps.training.trainer import Trainer
from sweeps.trial import leave_request
from sweeps.trial.job import Job
from sweeps.trial.messages import Failure, OutOfMemory, Shortage, WorkerFailed

_AMOUNT = r"([\d.]+) ?(bytes|KiB|MiB|GiB)"
_ASKED = re.compile(f"[Tt]r(?:ied|ying) to allocate {_AMOUNT}")
_HAD = re.compile(f"this process has {_AMOUNT} memory in use")
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_OF_GPU = ("CUDA", "CUBLAS", "CUDNN", "RESOURCE_EXHAUSTED")
UNKNOWN_ASKED_BYTES = GB // 2
"""Asked for by a library that does not say how much: the workspaces of cuBLAS and cuDNN, and CUDA's own
memory of a process."""


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


def build_run(
    job: Job,
    config: Mapping[str, Any],
    trainable: Trainable,
    checkpoint: Path | None,
    say: Say,
    environment: WorkerGroupEnvironment | None = None,
) -> RunHere:
    """The training of a trial, as each of its workers has it; what is copied to this PC for it is told."""
    params = build_params(trainable.params_class, {**config["fixed"], **config["params"]})
    if isinstance(trainable, FunctionTrainable):
        return FunctionRun(
            trainable,
            params,
            job.fit_of(config),
            checkpoint,
            number=config["number"],
            other_metrics=job.other_metrics,
            stop_grace_s=job.stop_grace_s,
        )
    fit = Fit(
        as_lightning(trainable),
        params,
        job.fit_of(config),
        checkpoint,
        prepared=job.data_of(trainable, params, say),
        environment=environment,
        is_to_leave=leave_request.is_asked,
        schedule_from=config.get("schedule_from", 0),
    )
    fit.callbacks.append(Listening())
    if "steps" in config:
        fit.callbacks.append(FirstSteps(fit.meter, fit.config.check_val_every_n_epoch or 1))
    return fit


class FirstSteps(pl.Callback):
    """Times the last training batch and the last validation batch, and adds what a whole epoch takes to the
    costs, as `epoch_s`.

    Args:
        passes: over the training data in an epoch.
    """

    def __init__(self, meter: Meter, passes: int = 1) -> None:
        self._meter, self._passes = meter, passes
        self._step_s = self._val_batch_s = self._began = 0.0
        self._batches: int | None = None
        self._val_batches: int | None = 0  # a model need not be validated

    @property
    def epoch_s(self) -> float | None:
        """Seconds of a whole epoch with its validation; None where the data does not say how long it is."""
        if self._batches is None or self._val_batches is None:
            return None
        return self._passes * self._batches * self._step_s + self._val_batches * self._val_batch_s

    def on_train_epoch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        self._batches, self._began = self._length(trainer, "train"), _now()

    def on_train_batch_end(self, *_: Any) -> None:
        self._step_s, self._began = _now() - self._began, _now()

    def on_validation_start(self, trainer: pl.Trainer, *_: Any) -> None:
        self._val_batches, self._began = self._length(trainer, "val"), _now()

    def on_validation_batch_end(self, *_: Any) -> None:
        self._val_batch_s, self._began = _now() - self._began, _now()

    def on_train_epoch_end(self, *_: Any) -> None:
        if self.epoch_s is not None:
            self._meter.further["epoch_s"] = self.epoch_s

    def _length(self, trainer: pl.Trainer, part: str) -> int | None:
        """Batches of all loaders of a whole epoch; None where they are not known."""
        assert isinstance(trainer, Trainer)
        loaders: Any = trainer.train_dataloader if part == "train" else trainer.val_dataloaders
        each = loaders if isinstance(loaders, list | tuple) else [loaders]
        batches = [_limited(loader, trainer.whole_epoch.get(f"limit_{part}_batches")) for loader in each]
        return None if None in batches else sum(filter(None, batches))


def _limited(loader: Any, limit: float | int | None) -> int | None:
    """Batches of a loader within a limit; None where its length is not known."""
    try:
        batches = len(loader)
    except (TypeError, NotImplementedError):  # a DataLoader has a length only where its data set has one
        return limit if isinstance(limit, int) else None
    return min(batches, limit) if isinstance(limit, int) else int(batches * (1 if limit is None else limit))


def _now() -> float:
    """The time when the GPU has done what it was asked for."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def with_shortage(failure: Failure, error: BaseException) -> Failure:
    """A failure with what there is to know of the GPU's memory, where that has just run out here."""
    if not isinstance(failure, OutOfMemory) or isinstance(error, WorkerFailed):  # measured elsewhere
        return failure
    texts = [f"{type(cause).__name__}: {cause}" for cause in causes(error)]
    if not any(word in text for word in _OF_GPU for text in texts):
        return failure
    if not (cards := gpus.listed(os.environ)):
        return failure
    card = cards[0]  # Ray shows a worker its GPU alone
    own = torch.cuda.memory_reserved()  # 0 where this process uses none
    if isinstance(error, ProgramFailed):  # it has ended, and its memory is free again
        had = _bytes_in(_HAD, texts) or 0
        own = max(0, had - int(CONTEXT_GB * GB))
        card = replace(card, used_bytes=card.used_bytes + had)
    found = Shortage(
        card=card,
        pc=platform.node(),
        node=nodes.here(),
        pid=os.getpid(),
        own_bytes=own,
        asked_bytes=asked_bytes(texts),
    )
    return replace(failure, shortage=found)


def asked_bytes(texts: Iterable[str]) -> int:
    """What PyTorch or JAX was asked for, as its errors say."""
    return _bytes_in(_ASKED, texts) or UNKNOWN_ASKED_BYTES


def _bytes_in(amount: re.Pattern[str], texts: Iterable[str]) -> int | None:
    for text in texts:
        if found := amount.search(text):
            return int(float(found[1]) * _UNITS[found[2]])
    return None
