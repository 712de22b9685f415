"""A worker of a trial other than the first one: an actor that the first worker starts for one trial."""

from __future__ import annotations

import dataclasses
import functools
import os
import platform
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import lightning.pytorch as pl
import ray

from sweeps.common import atomic_io
from sweeps.common.errors import PCUnfit
from sweeps.common.param_types import build_params
from sweeps.kinds import registry
from sweeps.kinds.trainable import LightningTrainable
from sweeps.ray_cluster import broadcast
from sweeps.storage import scratch
from sweeps.storage.data_source import Say
from sweeps.storage.folder_copy import File
from sweeps.storage.protocol import StorageError
from sweeps.training import torch_state
from sweeps.training.checkpoints import checkpoint_store
from sweeps.training.distributed.cluster_environment import Rendezvous, WorkerGroupEnvironment
from sweeps.training.fit_loop import Fit
from sweeps.trial import leave_request, output
from sweeps.trial.job import Job
from sweeps.trial.messages import WorkerFailed, WorkerUnfit, failure_of, unfit

_Arguments = ParamSpec("_Arguments")
_Value = TypeVar("_Value")


def _failing_as_worker(
    method: Callable[Concatenate[Worker, _Arguments], _Value],
) -> Callable[Concatenate[Worker, _Arguments], _Value]:
    """Raise a WorkerFailed in place of what a method raises: it says on which PC, and Ray can pass it on."""

    @functools.wraps(method)
    def call(worker: Worker, /, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Value:
        try:
            return method(worker, *arguments, **named)
        except KeyboardInterrupt:
            raise
        except (StorageError, PCUnfit) as error:
            raise WorkerUnfit(unfit(error)) from None
        except BaseException as error:  # sys.exit and worse
            failure = failure_of(error)
            reason = f"{failure.reason} (in another worker, on {platform.node()})"
            raise WorkerFailed(dataclasses.replace(failure, reason=reason)) from None

    return call


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
    environment: WorkerGroupEnvironment | None,
    say: Say = print,
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
    return fit


class Worker:
    """Trains one trial, in step with the first worker."""

    def __init__(self, job: Job, rank: int) -> None:
        self._job, self._rank = job, rank
        self._environment: WorkerGroupEnvironment | None = None
        self._fit: Fit | None = None
        self._made: list[tuple[Path, int]] = []
        """Folders for the first worker, each with the descriptor of its lock: no process removes it."""

    def introduce(self) -> tuple[str, str]:
        """Wait for the first worker to leave, also where the system sends a signal to all processes, and keep
        what is printed: Ray's id of this PC, and the file."""
        leave_request.listen()
        self._output_file = output.start()
        return broadcast.here(), self._output_file

    def printed(self) -> str:
        """What was printed since the last call."""
        return output.take()

    def end(self) -> str:
        """What was printed since the last call. The process is about to end, and leaves no file behind."""
        self._remove_made()
        printed = output.take()
        output.remove(self._output_file)
        return printed

    @_failing_as_worker
    def begin(self, config: Mapping[str, Any], first: Rendezvous, checkpoint: Path | None = None) -> str:
        """Prepare the trial, up to the process group of its workers; returns the name of this PC.

        Args:
            config: config of the trial.
            first: rendezvous of the first worker.
            checkpoint: folder of the checkpoint to go on from, on the PC of the first worker.
        """
        torch_state.seed_again(0)  # what an import draws must not differ from process to process
        trainable = registry.load(self._job.trainables[config["trainable"]])
        folder = None if checkpoint is None else self._found(checkpoint, config)
        self._environment = WorkerGroupEnvironment.connect(dataclasses.replace(first, rank=self._rank))
        self._fit = build_fit(self._job, config, trainable, folder, self._environment)
        return platform.node()

    @_failing_as_worker
    def train(self, trains_on: bool) -> None:
        """Train to the end of the next epoch, or let Lightning end the training in order."""
        assert self._fit is not None
        assert self._environment is not None
        if not trains_on:
            self._fit.close()
            return
        if not self._fit.is_training:
            self._environment.join(ray.util.get_node_ip_address())
        self._fit.advance()
        self._job.storage.forget_downloads()  # the training has read the checkpoint that it went on from

    @_failing_as_worker
    def check_room(self, folder: Path, size_bytes: int) -> None:
        """Raise a PCUnfit if a checkpoint of that size can't be written here."""
        place = next(path for path in (folder, *folder.parents) if path.exists())
        if shutil.disk_usage(place).free < size_bytes:
            raise _full(folder)

    @_failing_as_worker
    def save(self, folder: Path) -> list[File]:
        """Write this worker's shard of a checkpoint; the files that the first worker's PC lacks.

        All workers write into folders of the same name (Lightning sees to it), which may be one folder.
        """
        assert self._fit is not None
        self._remove_made()
        try:
            is_own = self._make(folder)
            self._fit.save(folder)
        except Exception as error:  # a hook of the user's may raise anything
            if atomic_io.disk_is_full(error, folder):
                raise _full(folder) from error
            raise
        return files_of(folder) if is_own else []

    @_failing_as_worker
    def clear(self) -> None:
        """Remove what was written here for the first worker."""
        self._remove_made()

    def _found(self, checkpoint: Path, config: Mapping[str, Any]) -> Path:
        """A checkpoint of the first worker's PC as a folder of this PC, which sees it, or asks the storage.

        Raises:
            PCUnfit: this PC finds another one.
        """
        if (checkpoint / checkpoint_store.MANIFEST).is_file():
            return checkpoint
        params = {**config["fixed"], **config["params"]}
        found, faults = self._job.storage.newest(config["number"], params)
        epoch = checkpoint_store.epoch_of(checkpoint)
        if found is None or checkpoint_store.epoch_of(found) != epoch:
            why = "; ".join([f"it does not find the checkpoint of epoch {epoch}", *faults])
            raise PCUnfit(why)
        return found

    def _make(self, folder: Path) -> bool:
        """Make a folder; False if it exists: workers of one PC share it."""
        top = folder
        while not top.parent.is_dir():
            top = top.parent
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            return False
        self._made.append((top, scratch.claim(top)))
        return True

    def _remove_made(self) -> None:
        for top, claim in self._made:
            shutil.rmtree(top, ignore_errors=True)
            os.close(claim)
        self._made = []


def _full(folder: Path) -> PCUnfit:
    return PCUnfit(f"the disk of {folder} is full")


def files_of(folder: Path) -> list[File]:
    """The files of a folder of this PC, with their checksums, to be copied to another PC."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [
        File.from_path(folder, str(path.relative_to(folder)), atomic_io.sha256_of(path)) for path in paths
    ]
