"""A worker of a trial other than its first one, in a process of its own: it does what that one says."""

from __future__ import annotations

import contextlib
import dataclasses
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import greenlet
import ray

from sweeps.common import atomic_io
from sweeps.common.errors import PCUnfit
from sweeps.storage import folder_reader
from sweeps.storage.folder_copy import File, Original
from sweeps.trial import checkpoint_copy
from sweeps.trial.checkpoint_copy import Folders
from sweeps.trial.failures import failed, unfit
from sweeps.trial.module_cache import Warm

if TYPE_CHECKING:
    from sweeps.training.distributed.cluster_environment import Gang, Seat
    from sweeps.training.epoch_callback import Epoch
    from sweeps.training.fit_loop import Fit
    from sweeps.trial.job import Job

Answer = tuple[dict[str, Any] | None, Any]
"""What has failed, or None, and an answer."""
_Value = TypeVar("_Value")


class Member:
    """One trial after another, in step with the first worker; each method answers what has failed, and a
    value. A user's exception does not end its process.

    Args:
        job: what all trials have in common.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._warm = Warm(job.trainables)
        self._gang: Gang | None = None
        self._fit: Fit | None = None
        self._run: greenlet.greenlet | None = None
        self._folders = Folders()

    def begin(
        self, config: Mapping[str, Any], seat: Seat, checkpoint: Original | None = None, node: str = ""
    ) -> Answer:
        """Begin a trial, up to where the workers meet; the name of this PC.

        Args:
            config: of the trial.
            seat: of this worker.
            checkpoint: that the trial goes on from.
            node: Ray's id of the PC that has it.
        """

        def begin() -> str:
            module = self._warm.module(config["trainable"])
            from sweeps.training.distributed.cluster_environment import Gang

            folder = None if checkpoint is None else self._folders.copy(checkpoint, node)
            self._gang = Gang.found(seat)
            params = module.Params(**config["fixed"], **config["params"])
            data = self._job.data_of(config["trainable"], module, params)
            fit = dataclasses.replace(self._job.fit, seed=config["seed"])
            self._fit = self._warm.fit(module, params, fit, folder, prepared=data, gang=self._gang)
            return platform.node()

        return self._tried(begin)

    def train(self) -> Answer:
        """Train to the end of the next epoch."""
        return self._tried(lambda: self._go_on(True))

    def end(self) -> Answer:
        """Train no more: let Lightning end in order, as it does on all workers."""
        return self._tried(lambda: self._go_on(False))

    def lacks_room(self, folder: Path, size_bytes: int) -> Answer:
        """Why a checkpoint of that size can't be written here; None where it can. It trains on."""
        if _free_bytes(folder) >= size_bytes:
            return None, None
        return None, _of_another(unfit(_full(folder)))

    def save(self, folder: Path) -> Answer:
        """Write this worker's part of a checkpoint; the files that the first worker's PC lacks.

        All write into folders of the same name (Lightning sees to it): one folder, where they share it.
        """

        def save() -> list[File]:
            assert self._fit is not None
            self._folders.clear()
            with _room_in(folder):
                is_own = self._folders.make(folder)
                self._fit.save(folder)
            return checkpoint_copy.files_of(folder) if is_own else []

        return self._tried(save)

    def read(self, folder: str, file: str, offset: int, length: int) -> Answer:
        """Bytes of such a file."""
        return self._tried(lambda: folder_reader.read(folder, file, offset, length))

    def clear(self) -> Answer:
        """Remove what was written here for the first worker."""
        return self._tried(self._folders.clear)

    def part(self) -> Answer:
        """Leave a trial as it is."""
        if self._gang is not None:
            self._gang.part()
        self._run = self._fit = self._gang = None
        self._folders.clear()
        self._warm.free()
        return None, None

    def _go_on(self, goes_on: bool) -> None:
        if self._run is None:
            self._run = greenlet.greenlet(self._train)
        self._run.switch(goes_on)

    def _train(self, _goes_on: bool) -> None:
        """The greenlet: one whole `fit()`, left at each epoch's end."""
        assert self._gang is not None
        assert self._fit is not None
        first = greenlet.getcurrent().parent
        assert first is not None

        def on_epoch(_epoch: Epoch) -> bool:
            self._folders.clear()  # the checkpoint that it went on from
            return bool(first.switch())

        self._gang.join(ray.util.get_node_ip_address())
        self._fit.run(on_epoch)

    def _tried(self, does: Callable[[], _Value]) -> Answer:
        try:
            return None, does()
        except KeyboardInterrupt:
            raise
        except PCUnfit as error:
            failure = unfit(error)
        except BaseException as error:  # sys.exit and worse: the user's code must not end a warm process
            failure = failed(error)
        # Behind the except: until there the traceback holds the model, and its memory.
        self.part()  # the others hear of it, and wait no longer
        return _of_another(failure), None


def _of_another(failure: dict[str, Any]) -> dict[str, Any]:
    return {**failure, "reason": f"{failure['reason']} (in another worker, on {platform.node()})"}


@contextlib.contextmanager
def _room_in(folder: Path) -> Iterator[None]:
    """Where a checkpoint is written: a full disk is this PC's fault."""
    try:
        yield
    except Exception as error:  # a hook of the user's may raise anything
        if atomic_io.disk_is_full(error, folder):
            raise _full(folder) from error
        raise


def _full(folder: Path) -> PCUnfit:
    return PCUnfit(f"the disk of {folder} is full")


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free
