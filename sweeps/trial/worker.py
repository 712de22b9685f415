"""A worker of a trial that has several: an actor that trains that one trial, in step with the others."""

from __future__ import annotations

import functools
import os
import platform
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ray
from lightning.pytorch.utilities.exceptions import SIGTERMException
from threadpoolctl import threadpool_limits

from sweeps.common import atomic_io, local_dirs
from sweeps.common.errors import PCUnfit, in_another_worker
from sweeps.kinds import registry
from sweeps.storage.data_source import File
from sweeps.training import torch_state
from sweeps.training.checkpoints import checkpoint_store
from sweeps.training.distributed.cluster_environment import WorkerGroupEnvironment
from sweeps.training.report import CheckpointUnusable, Position, Report, RunHere
from sweeps.trial import leave_request, output
from sweeps.trial.job import Job
from sweeps.trial.messages import Failed, LeftEarly, WorkerFailed, failure_of
from sweeps.trial.run import Host, build_run, with_shortage


def _failing_as_worker(method: Callable[..., Any]) -> Callable[..., Any]:
    """Raise a WorkerFailed in place of what a method raises: it says on which PC, and Ray can pass it on."""

    @functools.wraps(method)
    def call(worker: Worker, *arguments: Any) -> Any:
        try:
            return method(worker, *arguments)
        except (KeyboardInterrupt, CheckpointUnusable):
            raise
        except SIGTERMException:
            raise LeftEarly from None
        except BaseException as error:  # sys.exit and worse
            place = in_another_worker(platform.node()) if worker.rank else ""
            failure = with_shortage(failure_of(error, worker.fit, place), error)
            if leave_request.is_terminated() and isinstance(failure, Failed):
                raise LeftEarly from None
            raise WorkerFailed(failure) from None

    return call


class Worker:
    """Trains one trial, in step with the other workers."""

    def __init__(self, job: Job, rank: int) -> None:
        self._job, self.rank = job, rank
        threadpool_limits(job.fit.threads or 1, "blas")  # NumPy's: of a fork it has been one
        self.fit: RunHere | None = None
        self._made: list[tuple[Path, int]] = []
        """Folders for the first worker, each with the descriptor of its lock: no process removes it."""

    def __repr__(self) -> str:
        """Whose worker it is, on Ray's page of actors."""
        return f"sweep {self._job.sweep}, worker {self.rank}"

    @_failing_as_worker
    def introduce(self) -> tuple[output.Introduction, Host]:
        """Leave the run when that is asked, also where the system sends a signal to all processes, and keep
        what is printed."""
        leave_request.listen()
        try:
            introduction = output.introduce()
        except OSError as error:
            raise PCUnfit(f"what it prints can't be kept: {error}") from error
        self._output_file = introduction.output_file
        return introduction, Host.here()

    def printed(self) -> str:
        """What was printed since the last call."""
        return output.take()

    def end(self) -> str:
        """What was printed since the last call. The process is about to end, and leaves no file behind."""
        self.clear()
        printed = output.take()
        output.remove(self._output_file)
        return printed

    @_failing_as_worker
    def begin(
        self, config: Mapping[str, Any], address: str, port: int, checkpoint: Path | None = None
    ) -> tuple[str, list[str]]:
        """Prepare the trial; why the model has no test, and what was copied to this PC.

        Args:
            address: IP address of the PC of the first worker.
            port: of the store there.
            checkpoint: folder of the checkpoint to go on from, on that PC.
        """
        torch_state.seed_again(0)  # what an import draws must not differ from process to process
        trainable = registry.load(self._job.trainables[config["trainable"]])
        folder = None if checkpoint is None else self._found(checkpoint, config)
        own_address, workers = ray.util.get_node_ip_address(), self._job.fit.workers
        environment = WorkerGroupEnvironment(self.rank, workers, address, port, own_address)
        copied: list[str] = []
        self.fit = build_run(self._job, config, trainable, folder, copied.append, environment)
        return self.fit.why_no_test, copied

    @_failing_as_worker
    def advance(self) -> Report | Position | None:
        """As `Run.advance`."""
        assert self.fit is not None
        found = self.fit.advance()
        self._job.storage.forget_downloads()  # the training has read the checkpoint that it went on from
        return found

    @_failing_as_worker
    def close(self) -> None:
        """As `Run.close`."""
        if self.fit is not None:
            self.fit.close()

    @_failing_as_worker
    def checkpoint_bytes(self) -> int:
        """As `Run.checkpoint_bytes`."""
        return self.fit.checkpoint_bytes if self.fit is not None else 0

    @_failing_as_worker
    def check_room(self, folder: Path, size_bytes: int) -> None:
        """Raise a PCUnfit if a checkpoint of that size can't be written here."""
        if atomic_io.free_bytes(folder) < size_bytes:
            raise _full(folder)

    @_failing_as_worker
    def save(self, folder: Path) -> list[File]:
        """Write this worker's part of a checkpoint; the files that the first worker's PC lacks.

        All workers write into folders of the same name (Lightning sees to it), which may be one folder.
        """
        assert self.fit is not None
        self.clear()
        try:
            is_own = self._make(folder)
            self.fit.save(folder)
        except Exception as error:  # a hook of the user's may raise anything
            if atomic_io.disk_is_full(error, folder):
                raise _full(folder) from error
            raise
        return files_of(folder) if is_own else []

    def clear(self) -> None:
        """Remove what was written here for the first worker."""
        for top, claim in self._made:
            shutil.rmtree(top, ignore_errors=True)
            os.close(claim)
        self._made = []

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
        self._made.append((top, local_dirs.claim(top)))
        return True


def _full(folder: Path) -> PCUnfit:
    return PCUnfit(f"the disk of {folder} is full")


def files_of(folder: Path) -> list[File]:
    """The files of a folder of this PC, with their checksums, to be copied to another PC."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [
        File.from_path(folder, str(path.relative_to(folder)), atomic_io.sha256_of(path)) for path in paths
    ]
