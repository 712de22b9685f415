"""A worker of a trial other than its first one, in a process of its own: it does what that one says."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import greenlet
import ray

from sweeps.common import atomic_io
from sweeps.common.errors import PCUnfit
from sweeps.storage import scratch
from sweeps.training import checkpoint_store
from sweeps.trial.failures import failed, unfit
from sweeps.trial.module_cache import Warm

if TYPE_CHECKING:
    from sweeps.training.distributed.cluster_environment import Gang, Seat
    from sweeps.training.epoch_callback import Epoch
    from sweeps.training.fit_loop import Fit
    from sweeps.trial.job import Job

Said = tuple[dict[str, Any] | None, Any]
"""What has failed, or None, and an answer."""
_Answer = TypeVar("_Answer")


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
        self._own: Path | None = None
        """A folder of the first worker's, made here as well: its PC is another one."""
        self._own_top: Path | None = None
        self._claim: int | None = None
        """Keeps others from removing it, as what a dead process left."""

    def lacks(self, checkpoint: Path, manifest: str) -> Said:
        """Whether this worker is to take a checkpoint of the first one's PC, in parts: it is not to be seen
        here, and no other worker of this PC takes it."""

        def lacks() -> bool:
            if _is_there(checkpoint, manifest):
                return False
            with _room_in(checkpoint):
                self._make(checkpoint)
            return self._own is not None

        return self._tried(lacks)

    def take(self, checkpoint: Path, name: str, chunk: bytes) -> Said:
        """The next part of a file of a checkpoint."""

        def take() -> None:
            file = checkpoint / name
            with _room_in(checkpoint):
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("ab") as content:
                    content.write(chunk)

        return self._tried(take)

    def has(self, checkpoint: Path, manifest: str) -> Said:
        """See that it is there now, and what was taken as it was sent."""

        def has() -> None:
            fault = checkpoint_store.fault(checkpoint) if self._own is not None else None
            if fault is None and not _is_there(checkpoint, manifest):
                fault = "it is another one"
            if fault is not None:
                raise OSError(f"{checkpoint} on {platform.node()}: {fault}")

        return self._tried(has)

    def begin(self, config: Mapping[str, Any], seat: Seat, checkpoint: Path | None) -> Said:
        """Begin a trial, up to where the workers meet; the name of this PC."""

        def begin() -> str:
            module = self._warm.module(config["trainable"])
            from sweeps.training.distributed.cluster_environment import Gang

            self._gang = Gang.found(seat)
            params = module.Params(**config["fixed"], **config["params"])
            data = self._job.data_of(config["trainable"], module, params)
            fit = dataclasses.replace(self._job.fit, seed=config["seed"])
            self._fit = self._warm.fit(module, params, fit, checkpoint, prepared=data, gang=self._gang)
            return platform.node()

        return self._tried(begin)

    def train(self) -> Said:
        """Train to the end of the next epoch."""
        return self._tried(lambda: self._go_on(True))

    def end(self) -> Said:
        """Train no more: let Lightning end in order, as it does on all workers."""
        return self._tried(lambda: self._go_on(False))

    def lacks_room(self, folder: Path, size_bytes: int) -> Said:
        """Why a checkpoint of that size can't be written here; None where it can. It trains on."""
        if _free_bytes(folder) >= size_bytes:
            return None, None
        return None, _of_another(unfit(_full(folder)))

    def save(self, folder: Path) -> Said:
        """Write this worker's part of a checkpoint; files, and their sizes, that the first one lacks.

        All write into folders of the same name (Lightning sees to it): one folder, where they share it.
        """

        def save() -> dict[str, int]:
            assert self._fit is not None
            self._clear()
            with _room_in(folder):
                self._make(folder)
                self._fit.save(folder)
            return {} if self._own is None else files_in(folder)

        return self._tried(save)

    def read(self, name: str, offset: int, most_bytes: int) -> Said:
        """A part of such a file."""

        def read() -> bytes:
            assert self._own is not None
            with (self._own / name).open("rb") as content:
                content.seek(offset)
                return content.read(most_bytes)

        return self._tried(read)

    def clear(self) -> Said:
        """Remove what was written here for the first worker."""
        return self._tried(self._clear)

    def part(self) -> Said:
        """Leave a trial as it is."""
        if self._gang is not None:
            self._gang.part()
        self._run = self._fit = self._gang = None
        self._clear()
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
            self._clear()  # the checkpoint that it went on from
            return bool(first.switch())

        self._gang.join(ray.util.get_node_ip_address())
        self._fit.run(on_epoch)

    def _tried(self, does: Callable[[], _Answer]) -> Said:
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

    def _make(self, folder: Path) -> None:
        """Make a folder of the first worker's here as well, where it is not the same one; it is of the
        worker of this PC that comes first."""
        top = folder
        while not top.parent.is_dir():
            top = top.parent
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            return
        self._own, self._own_top = folder, top
        self._claim = scratch.claim(top)

    def _clear(self) -> None:
        if self._own_top is not None:
            shutil.rmtree(self._own_top, ignore_errors=True)
        if self._claim is not None:
            os.close(self._claim)
        self._own = self._own_top = self._claim = None


def files_in(folder: Path) -> dict[str, int]:
    """Files of a folder, and their sizes."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {str(file.relative_to(folder)): file.stat().st_size for file in files}


def _is_there(checkpoint: Path, manifest: str) -> bool:
    file = checkpoint / checkpoint_store.MANIFEST
    return file.is_file() and file.read_text() == manifest


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
