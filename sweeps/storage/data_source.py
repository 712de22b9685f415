"""Prepared data on every PC of a cluster: copied to its disk once, or read in a folder that all see.

Where the driver runs it lies whole: a preparation writes there, wherever its tasks run. A process there, the
reader, hands out its files in pieces, over Ray's own network (and past its token): PCs need no SSH to each
other. All PCs are made whole before the first trial starts; one that joins later, or whose copy is found
broken, is when a trial begins there.
"""

from __future__ import annotations

import contextlib
import platform
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sweeps.cluster import broadcast
from sweeps.common.errors import PCUnfit
from sweeps.common.formatting import duration, size

if TYPE_CHECKING:
    from sweeps.training.data.replicate import Original

READER = "reader of prepared data"
"""Name of the process, which other sweeps on the cluster do not see: each has names of its own."""
PIECE_BYTES = 8 * 2**20
AHEAD = 3
"""Pieces that are on their way to a PC at a time."""
PIECE_S = 300
"""That a piece may take."""
TELL_S = 0.5
"""Between two reports of how far a PC is."""


Say = Callable[[str], None]


class DataSource(Protocol):
    """How a PC comes by a data set."""

    def here(self, say: Say) -> Path:
        """Its folder on this PC, whole.

        Args:
            say: told where it had to be copied first.

        Raises:
            PCUnfit: this PC can't have it.
        """


@dataclass(frozen=True)
class LocalData:
    """On the one PC of a sweep: where it was prepared."""

    folder: Path

    def here(self, say: Say) -> Path:
        """As DataSource has it."""
        return self.folder


@dataclass(frozen=True)
class SharedData:
    """In a folder that all PCs see."""

    original: Original
    pc: str
    """That of the driver."""

    def here(self, say: Say) -> Path:
        """As DataSource has it."""
        from sweeps.training.data import replicate

        if not replicate.is_shared(self.original):
            raise PCUnfit(
                f"{self.original.folder} is not there as on {self.pc}: share it, or give --data copy"
            )
        return Path(self.original.folder)


@dataclass(frozen=True)
class CopiedData:
    """On the disk of each PC."""

    original: Original
    pc: str
    """That of the driver."""

    def here(self, say: Say) -> Path:
        """As DataSource has it."""
        from sweeps.training.data import replicate

        if (folder := replicate.find(self.original)) is not None:
            return folder
        began, got = time.monotonic(), self.bring()
        if got:
            took = duration(time.monotonic() - began)
            say(f"{size(got)} of prepared data copied to {platform.node()} first, in {took}")
        return self.original.target

    def bring(self) -> int:
        """Copy what this PC lacks; how many bytes that was.

        Raises:
            PCUnfit: its disk is full, or the PC that has the data does not answer.
        """
        import ray

        from sweeps.training.data import replicate

        got = told = 0
        told_at = time.monotonic()
        with self._answering():
            reader = ray.get_actor(READER)

        def tell(bytes_: int) -> None:
            nonlocal got, told, told_at
            got += bytes_
            if time.monotonic() - told_at > TELL_S:
                reader.note.remote(broadcast.here(), got - told)
                told, told_at = got, time.monotonic()

        replicate.bring(self.original, lambda file, offset: self._pieces(reader, file, offset), tell)
        reader.note.remote(broadcast.here(), got - told)
        return got

    def _pieces(self, reader: Any, file: str, offset: int) -> Iterator[Any]:
        """The content of a file from there on; the next pieces are on their way while one is used."""

        end = next(each.size_bytes for each in self.original.files if each.name == file)
        ahead: deque[Any] = deque()
        for begin in range(offset, end, PIECE_BYTES):
            length = min(PIECE_BYTES, end - begin)
            ahead.append(reader.read.remote(self.original.folder, file, begin, length))
            if len(ahead) == AHEAD:
                yield self._piece(ahead.popleft())
        while ahead:
            yield self._piece(ahead.popleft())

    def _piece(self, ref: Any) -> Any:
        import ray

        with self._answering():
            return ray.get(ref, timeout=PIECE_S)

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        """What that PC does not do is not blamed on the disk of this one: Ray's errors may be OSErrors."""
        import ray

        try:
            yield
        except (ray.exceptions.RayError, ValueError) as error:  # ValueError: there is no such actor
            said = str(error).strip().splitlines()[-1]
            raise PCUnfit(f"{self.pc}, which has the prepared data, does not answer: {said}") from None


class Reader:
    """Hands out prepared data on the PC where it lies, and hears how far each PC is.

    Args:
        folders: of the data sets; no other is read.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = frozenset(folders)
        self._got: dict[str, int] = {}

    def read(self, folder: str, file: str, offset: int, length: int) -> Any:
        """Bytes of a file, as an array: Ray copies no array that it passes on."""
        import numpy as np

        if folder not in self._folders:
            raise ValueError(f"{folder} is no data of this sweep")
        return np.fromfile(Path(folder, file), np.uint8, length, offset=offset)

    def note(self, node: str, bytes_: int) -> None:
        """A PC has so many bytes more."""
        self._got[node] = self._got.get(node, 0) + bytes_

    def got(self) -> dict[str, int]:
        """Bytes that each PC has got."""
        return dict(self._got)
