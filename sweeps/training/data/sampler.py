"""The order of an epoch, a function of (seed, epoch, position) alone.

Rows were shuffled once, when they were written; each epoch permutes the row groups and shuffles rows within
a window.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch.utils.data import DistributedSampler

from sweeps.common.errors import CannotTrain


class Slice(NamedTuple):
    """A batch: rows at positions `first` to `last` (exclusive) of an epoch."""

    epoch: int
    first: int
    last: int


class Order:
    """Order of a split's rows in an epoch.

    Args:
        window_rows: rows of a shuffling window; None: the rows are in the order of the files.
    """

    def __init__(
        self, rows_of_groups: npt.NDArray[np.int64], seed: int, epoch: int, window_rows: int | None
    ) -> None:
        self.epoch, self._seed, self._window_rows = epoch, seed, window_rows
        self._turns = np.arange(len(rows_of_groups))
        if window_rows is not None:
            self._turns = _permutation((seed, epoch, 0), len(rows_of_groups))
        self._ends = np.cumsum(rows_of_groups[self._turns])
        self._begins = self._ends - rows_of_groups[self._turns]

    def pieces(self, first: int, last: int) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """Of the rows at these positions of the epoch, each row group's number and its rows among them."""
        wanted = self._positions(first, last)
        turns = np.searchsorted(self._ends, wanted, side="right")
        for turn in np.unique(turns):
            yield int(self._turns[turn]), wanted[turns == turn] - self._begins[turn]

    def _positions(self, first: int, last: int) -> npt.NDArray[np.int64]:
        """Of the rows at these positions of the epoch, those before windows are shuffled."""
        if (size := self._window_rows) is None:
            return np.arange(first, last)
        begin, end = first // size * size, min(-(-last // size) * size, int(self._ends[-1]))
        windows = [
            start + _permutation((self._seed, self.epoch, 1 + start // size), min(size, end - start))
            for start in range(begin, end, size)
        ]
        return np.concatenate(windows)[first - begin : last - begin]


@functools.lru_cache(maxsize=4)  # each batch of a window needs the same one
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
        self.rows = fewest if drop_last else self._last - self._first
        """Of this rank in an epoch, those of its last batch included, too; with `drop_last` the same on each
        rank, so that each takes as many steps of several batches."""
        # With batches of one row a rank may take two at its end, since each rank needs as many batches.
        self._count = fewest // batch_size if drop_last else min(fewest, -(-most // batch_size))
        self.epoch = 0
        self.start = (0, 0)
        """An epoch, and how many of its first batches to skip: those trained on before an interruption."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        # For all of it: where an epoch of Lightning's is a part of a pass, it sets its own amid the pass.
        now, (epoch, batches) = self.epoch, self.start
        edges = self._edges()
        for first, last in itertools.pairwise(edges[batches:] if epoch == now else edges):
            yield Slice(now, first, last)

    def _edges(self) -> list[int]:
        edges = [self._first + number * self.batch_size for number in range(self._count)]
        if self.drops_last:
            return [*edges, self._first + self._count * self.batch_size] if edges else []
        # A rank with one row less than others may have none for its last batch: it takes one of the batch
        # before.
        if edges[-1] >= self._last:
            edges[-1] = self._last - 1
        return [*edges, self._last]
