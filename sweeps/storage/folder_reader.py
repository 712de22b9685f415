"""Reads files of another PC in pieces, over Ray's own network (and past its token): without SSH between PCs.

A `Reader` is a process on the PC that has them. What is slow or fails there is not blamed on the disk of the
PC that reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray

from sweeps.cluster import broadcast
from sweeps.common.errors import PCUnfit
from sweeps.storage.folder_copy import Fetch, File

PIECE_BYTES = 8 * 2**20
AHEAD = 3
"""Pieces that are on their way to a PC at a time."""
PIECE_S = 300
"""Seconds that a piece may take."""


class Reader:
    """Hands out the files of some folders, and is told how far each PC is.

    Args:
        folders: no other is read.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = frozenset(folders)
        self._got: dict[str, int] = {}

    def read(self, folder: str, file: str, offset: int, length: int) -> Any:
        """Bytes of a file."""
        if folder not in self._folders:
            raise ValueError(f"{folder} is not handed out")
        return read(folder, file, offset, length)

    def note(self, node: str, bytes_: int) -> None:
        """A PC has so many bytes more."""
        self._got[node] = self._got.get(node, 0) + bytes_

    def got(self) -> dict[str, int]:
        """Ray's id of each PC to the bytes that it has got."""
        return dict(self._got)


def read(folder: str, file: str, offset: int, length: int) -> Any:
    """Bytes of a file, as an array: Ray copies no array that it passes on."""
    return np.fromfile(Path(folder, file), np.uint8, length, offset=offset)


def start(folders: Sequence[str], node: str, **options: Any) -> Any:
    """A reader on a PC; it ends when this handle and its copies are gone.

    Args:
        folders: that it hands out.
        node: Ray's id of the PC.
        options: of the actor.
    """
    actor: Any = ray.remote(Reader)
    return actor.options(num_cpus=0, scheduling_strategy=broadcast.on(node), **options).remote(folders)


def fetch_from(
    reader: Callable[[], Any], folder: str, pc: str, get: Callable[[Any], Any] | None = None
) -> Fetch:
    """How the files of a folder are fetched from another PC.

    Args:
        reader: gives an actor there with the method `read` of a Reader.
        folder: of the files, there.
        pc: name of that PC and what it has, for the message where it fails.
        get: waits for a piece.

    Raises:
        PCUnfit: by what is returned, where that PC does not answer.
    """
    wait = get or (lambda ref: ray.get(ref, timeout=PIECE_S))

    def fetch(file: File, offset: int) -> Iterator[Any]:
        try:
            actor = reader()
            ahead: deque[Any] = deque()
            for begin in range(offset, file.size_bytes, PIECE_BYTES):
                length = min(PIECE_BYTES, file.size_bytes - begin)
                ahead.append(actor.read.remote(folder, file.name, begin, length))
                if len(ahead) == AHEAD:
                    yield wait(ahead.popleft())
            while ahead:
                yield wait(ahead.popleft())
        except (ray.exceptions.RayError, ValueError) as error:  # ValueError: there is no such actor
            said = str(error).strip().splitlines()[-1]
            raise PCUnfit(f"{pc} does not answer: {said}") from None

    return fetch
