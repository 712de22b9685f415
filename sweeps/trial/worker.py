"""A worker of a trial other than the first one: an actor that the first worker starts for one trial."""

from __future__ import annotations

import dataclasses
import functools
import platform
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec

import lightning.pytorch as pl
import ray

from sweeps.common import atomic_io
from sweeps.common.errors import PCUnfit
from sweeps.common.param_types import build_params
from sweeps.storage import folder_reader
from sweeps.storage.folder_copy import File, Original
from sweeps.training.distributed.cluster_environment import Rendezvous, WorkerGroupEnvironment
from sweeps.training.fit_loop import Fit
from sweeps.trial import checkpoint_copy, leave_request, output
from sweeps.trial.checkpoint_copy import Folders
from sweeps.trial.job import Job
from sweeps.trial.messages import Failure, failure_of, unfit
from sweeps.trial.trainable_cache import TrainableCache

_Arguments = ParamSpec("_Arguments")


class Answer(NamedTuple):
    """What a call has come to."""

    value: Any = None
    failure: Failure | None = None


def _answered(
    method: Callable[Concatenate[Worker, _Arguments], object],
) -> Callable[Concatenate[Worker, _Arguments], Answer]:
    """Answer with a failure what a method raises."""

    @functools.wraps(method)
    def call(worker: Worker, /, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> Answer:
        try:
            return Answer(method(worker, *arguments, **named))
        except KeyboardInterrupt:
            raise
        except PCUnfit as error:
            return Answer(failure=_located(unfit(error)))
        except BaseException as error:  # sys.exit and worse
            return Answer(failure=_located(failure_of(error)))

    return call


class Listening(pl.Callback):
    """Listens again to requests to leave once a training has begun: Lightning takes SIGTERM then, and would
    raise at the end of the step, before anything is saved. It gives the handlers back at the end."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        leave_request.listen()


class Introduction(NamedTuple):
    """What a worker says of itself."""

    node: str
    """Ray's id of its PC."""
    rank: int
    output_file: str


class Worker:
    """Trains one trial, in step with the first worker."""

    def __init__(self, job: Job, rank: int) -> None:
        self._job, self._rank = job, rank
        self._environment: WorkerGroupEnvironment | None = None
        self._fit: Fit | None = None
        self._folders = Folders()

    def introduce(self) -> Introduction:
        """Wait for the first worker to leave, also where the system sends a signal to all processes. Keep
        what is printed."""
        leave_request.listen()
        self._output_file = output.start()
        return Introduction(ray.get_runtime_context().get_node_id(), self._rank, self._output_file)

    def printed(self) -> str:
        """What was printed since the last call."""
        return output.take()

    def end(self) -> str:
        """What was printed since the last call. The process is about to end, and leaves no file behind."""
        self._folders.clear()
        printed = output.take()
        output.remove(self._output_file)
        return printed

    @_answered
    def begin(
        self, config: Mapping[str, Any], first: Rendezvous, checkpoint: Original | None = None, node: str = ""
    ) -> str:
        """Prepare the trial, up to the process group of its workers; returns the name of this PC.

        Args:
            config: config of the trial.
            first: rendezvous of the first worker.
            checkpoint: checkpoint to go on from.
            node: Ray's id of the PC that has the checkpoint.
        """
        trainable = TrainableCache(self._job.trainables).load(config["trainable"])
        folder = None if checkpoint is None else self._folders.copy(checkpoint, node)
        self._environment = WorkerGroupEnvironment.connect(dataclasses.replace(first, rank=self._rank))
        params = build_params(trainable.params_class, {**config["fixed"], **config["params"]})
        self._fit = Fit(
            trainable,
            params,
            self._job.fit_of(config),
            folder,
            prepared=self._job.data_of(trainable, params),
            environment=self._environment,
        )
        self._fit.callbacks.append(Listening())
        return platform.node()

    @_answered
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
        self._folders.clear()  # the copy of the checkpoint that it went on from

    @_answered
    def lack_of_room(self, folder: Path, size_bytes: int) -> Failure | None:
        """The failure if a checkpoint of that size can't be written here; else None."""
        place = next(path for path in (folder, *folder.parents) if path.exists())
        return _located(unfit(_full(folder))) if shutil.disk_usage(place).free < size_bytes else None

    @_answered
    def save(self, folder: Path) -> list[File]:
        """Write this worker's shard of a checkpoint; the files that the first worker's PC lacks.

        All workers write into folders of the same name (Lightning sees to it), which may be one folder.
        """
        assert self._fit is not None
        self._folders.clear()
        try:
            is_own = self._folders.make(folder)
            self._fit.save(folder)
        except Exception as error:  # a hook of the user's may raise anything
            if atomic_io.disk_is_full(error, folder):
                raise _full(folder) from error
            raise
        return checkpoint_copy.files_of(folder) if is_own else []

    @_answered
    def read(self, folder: str, file: str, offset: int, length: int) -> Any:
        """Bytes of such a file."""
        return folder_reader.read(folder, file, offset, length)

    @_answered
    def clear(self) -> None:
        """Remove what was written here for the first worker."""
        self._folders.clear()


def _located(failure: Failure) -> Failure:
    reason = f"{failure.reason} (in another worker, on {platform.node()})"
    return dataclasses.replace(failure, reason=reason)


def _full(folder: Path) -> PCUnfit:
    return PCUnfit(f"the disk of {folder} is full")
