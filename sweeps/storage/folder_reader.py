"""Read files of another PC in pieces over Ray's network, without SSH between PCs.

A `Reader` is a process on the PC that has the files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray

from sweeps.common.errors import PCUnfit
from sweeps.ray_cluster import broadcast
from sweeps.storage.folder_copy import Fetch, File

PIECE_BYTES = 8 * 2**20
PIECES_AHEAD = 3
"""Pieces in transfer at a time."""
PIECE_S = 300
"""Longest wait for a piece, in seconds."""


class Reader:
    """Serves the files of some folders, and counts the bytes that each PC has copied.

    Args:
        folders: the only ones that are read.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = frozenset(folders)
        self._got: dict[str, int] = {}

    def read(self, folder: str, file: str, offset: int, length: int) -> Any:
        """Bytes of a file."""
        if folder not in self._folders:
            raise ValueError(f"{folder} is not served")
        return read(folder, file, offset, length)

    def note(self, node: str, bytes_: int) -> None:
        """Add bytes that a PC has copied."""
        self._got[node] = self._got.get(node, 0) + bytes_

    def got(self) -> dict[str, int]:
        """Ray's id of each PC to the bytes that it has copied."""
        return dict(self._got)


def read(folder: str, file: str, offset: int, length: int) -> Any:
    """Bytes of a file, as an array: Ray passes arrays on without a copy."""
    return np.fromfile(Path(folder, file), np.uint8, length, offset=offset)


def start(folders: Sequence[str], node: str, **options: Any) -> Any:
    """A reader on a PC; it ends with the last copy of this handle.

    Args:
        folders: that it serves.
        node: Ray's id of the PC.
        options: of the actor.
    """
    actor: Any = ray.remote(Reader)
    return actor.options(num_cpus=0, scheduling_strategy=broadcast.on(node), **options).remote(folders)


def fetch_from(
    reader: Callable[[], Any], folder: str, pc: str, get: Callable[[Any], Any] | None = None
) -> Fetch:
    """A function that fetches files of another PC; it raises PCUnfit when that PC does not answer.

    Args:
        reader: gives an actor there with the method `read` of a Reader.
        folder: of the files, there.
        pc: name of that PC and what it has, for messages.
        get: waits for a piece.
    """
    wait = get or (lambda ref: ray.get(ref, timeout=PIECE_S))

    def fetch(file: File) -> Iterator[Any]:
        try:
            actor = reader()
            ahead: deque[Any] = deque()
            for begin in range(0, file.size_bytes, PIECE_BYTES):
                length = min(PIECE_BYTES, file.size_bytes - begin)
                ahead.append(actor.read.remote(folder, file.name, begin, length))
                if len(ahead) == PIECES_AHEAD:
                    yield wait(ahead.popleft())
            while ahead:
                yield wait(ahead.popleft())
        except (ray.exceptions.RayError, ValueError) as error:  # ValueError: there is no such actor
            said = str(error).strip().splitlines()[-1]
            raise PCUnfit(f"{pc} does not answer: {said}") from None

    return fetch
