"""The order of an epoch, a function of (seed, epoch, position) alone.

Rows were shuffled once, when they were written; each epoch permutes the row groups and shuffles rows within
a window.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch.utils.data import DistributedSampler

from sweeps.common.errors import CannotTrain

WINDOW_ROWS = 8192
"""Rows of a window."""


class Slice(NamedTuple):
    """A batch: rows at positions `first` to `last` (exclusive) of an epoch."""

    epoch: int
    first: int
    last: int


@dataclass(frozen=True)
class Group:
    """A row group of a shard."""

    shard: int
    number: int
    rows: int


@dataclass(frozen=True)
class Order:
    """Order of a split's rows in an epoch."""

    groups: tuple[Group, ...]
    seed: int
    epoch: int
    is_shuffled: bool
    window_rows: int = WINDOW_ROWS

    @cached_property
    def _turns(self) -> list[int]:
        """Numbers of the groups, in the order of the epoch."""
        turns = np.arange(len(self.groups))
        return list(_permutation((self.seed, self.epoch, 0), len(turns)) if self.is_shuffled else turns)

    @cached_property
    def _ends(self) -> npt.NDArray[np.int64]:
        """End position of each turn."""
        return np.cumsum([self.groups[turn].rows for turn in self._turns])

    def windows(self, first: int, last: int) -> Iterator[tuple[int, int, npt.NDArray[np.int64]]]:
        """The windows that hold positions of a shuffled epoch: first and last position, and which of the
        window's rows to take, in order."""
        size = self.window_rows
        for begin in range(first // size * size, last, size):
            end = min(begin + size, int(self._ends[-1]))
            rows = _permutation((self.seed, self.epoch, 1 + begin // size), end - begin)
            yield begin, end, rows[max(first - begin, 0) : last - begin]

    def groups_of(self, first: int, last: int) -> Iterator[tuple[Group, int, int]]:
        """The groups between two positions, before windows are shuffled, each with its first and last row."""
        turn = int(np.searchsorted(self._ends, first, side="right"))
        while first < last:
            group = self.groups[self._turns[turn]]
            begin = int(self._ends[turn]) - group.rows
            end = min(last, int(self._ends[turn]))
            yield group, first - begin, end - begin
            first, turn = end, turn + 1


@lru_cache(maxsize=4)  # each batch of a window needs the same one
def _permutation(seed: tuple[int, ...], count: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(count)


class Batches(DistributedSampler[Any]):
    """The batches of one rank: as many on each rank, every row once (with `drop_last`, full batches only).

    A DistributedSampler, so that Lightning sets its epoch and does not replace it.

    Raises:
        CannotTrain: there are fewer rows than ranks.
    """

    def __init__(
        self, rows: int, batch_size: int, *, rank: int = 0, ranks: int = 1, drop_last: bool = False
    ) -> None:
        if rows < ranks:
            raise CannotTrain(f"{rows} rows for {ranks} workers: each worker needs at least one row")
        self._first, self._last = rank * rows // ranks, (rank + 1) * rows // ranks
        self.batch_size, self.drops_last = batch_size, drop_last
        fewest, most = rows // ranks, -(-rows // ranks)
        # With batches of one row a rank may take two at its end, since each rank needs as many batches.
        self._count = fewest // batch_size if drop_last else min(fewest, -(-most // batch_size))
        self.epoch = 0
        self.start = (0, 0)
        """An epoch, and how many of its first batches to skip: those trained on before an interruption."""

    @property
    def rows(self) -> int:
        """Of this rank in an epoch, those that are dropped included."""
        return self._last - self._first

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        epoch, batches = self.start
        edges = self._edges()
        for first, last in itertools.pairwise(edges[batches:] if epoch == self.epoch else edges):
            yield Slice(self.epoch, first, last)

    def _edges(self) -> list[int]:
        edges = [self._first + number * self.batch_size for number in range(self._count)]
        if self.drops_last:
            return [*edges, self._first + self._count * self.batch_size] if edges else []
        # A rank with one row less than others may have none for its last batch: it takes one of the batch
        # before.
        if edges[-1] >= self._last:
            edges[-1] = self._last - 1
        return [*edges, self._last]
