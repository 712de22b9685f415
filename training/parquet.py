"""Prepared rows as batches: whole slices of memory, shuffled, shared out to ranks and loader workers.

What a batch is follows from (seed, epoch, position) alone. So a resumed trial sees what it would have
seen, any number of loader workers gives the same batches in the same order, and all ranks have as many.

Rows were shuffled once, when they were written. Each epoch takes the row groups in another order (seeded)
and shuffles rows within a window, so that each read is of contiguous memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as pl
import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from training.shards import Manifest, NotPrepared, open_shard, to_arrays

Batch = dict[str, torch.Tensor]
"""Column to [rows, ...]."""
Columns = dict[str, npt.NDArray[Any]]
"""The same as it was stored."""
Transform = Callable[[str, int, Columns], Columns]
"""Of a split, an epoch and a batch as it was stored, the batch that is trained on."""
WINDOW_ROWS = 8192
"""Rows among which a row is shuffled, beside the order of the groups."""
KEPT_GROUPS = 2
"""Row groups that a reader keeps: a window begins in the group where the one before it ended."""


class Slice(NamedTuple):
    """A batch, as the loader asks for it: rows at positions `first` to `last` (not in it) of an epoch."""

    epoch: int
    first: int
    last: int


@dataclass(frozen=True)
class Group:
    """A row group: what is read at once."""

    shard: int
    number: int
    rows: int


@dataclass(frozen=True)
class Order:
    """The order of a split's rows in an epoch."""

    groups: tuple[Group, ...]
    seed: int
    epoch: int
    is_shuffled: bool
    window_rows: int = WINDOW_ROWS

    @cached_property
    def _turns(self) -> list[int]:
        """The groups in the order in which they come."""
        turns = np.arange(len(self.groups))
        return list(self._generator(0).permutation(turns) if self.is_shuffled else turns)

    @cached_property
    def _ends(self) -> npt.NDArray[np.int64]:
        """Behind which position each turn ends."""
        return np.cumsum([self.groups[turn].rows for turn in self._turns])

    def windows(self, first: int, last: int) -> Iterator[tuple[int, int, npt.NDArray[np.int64]]]:
        """The windows (first, last) that positions lie in, and which of their rows, in order."""
        size = self.window_rows if self.is_shuffled else last - first
        start = first // size * size if self.is_shuffled else first
        for begin in range(start, last, size):
            end = min(begin + size, int(self._ends[-1]))
            rows = np.arange(end - begin)
            if self.is_shuffled:
                rows = self._generator(1 + begin // size).permutation(rows)
            yield begin, end, rows[max(first - begin, 0) : last - begin]

    def groups_of(self, first: int, last: int) -> Iterator[tuple[Group, int, int]]:
        """Groups, and from and to which of their rows: those between two positions, before the windows
        are shuffled."""
        turn = int(np.searchsorted(self._ends, first, side="right"))
        while first < last:
            group = self.groups[self._turns[turn]]
            begin = int(self._ends[turn]) - group.rows
            end = min(last, int(self._ends[turn]))
            yield group, first - begin, end - begin
            first, turn = end, turn + 1

    def _generator(self, *what: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, self.epoch, *what))


class Batches(DistributedSampler[Any]):
    """The batches of one rank: as many on each, every row once (with `drop_last`, as many as fill them).

    A DistributedSampler, so that Lightning tells it the epoch and puts no other in its place.
    """

    def __init__(
        self, rows: int, batch_size: int, *, rank: int = 0, ranks: int = 1, drop_last: bool = False
    ) -> None:
        if rows < ranks:
            raise ValueError(f"{rows} rows for {ranks} workers: each needs one at least")
        self._first, self._last = rank * rows // ranks, (rank + 1) * rows // ranks
        self._batch_size = batch_size
        fewest, most = rows // ranks, -(-rows // ranks)
        # Of batches of one row a rank may have to take two at its end: no rank may be without a batch.
        self._count = fewest // batch_size if drop_last else min(fewest, -(-most // batch_size))
        self._drops_last = drop_last
        self.epoch = 0
        self.start = (0, 0)
        """An epoch, and the batches of it that are left out: they were trained on before a stop."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        epoch, batches = self.start
        edges = self._edges()
        for first, last in itertools.pairwise(edges[batches:] if epoch == self.epoch else edges):
            yield Slice(self.epoch, first, last)

    def _edges(self) -> list[int]:
        edges = [self._first + number * self._batch_size for number in range(self._count)]
        if self._drops_last:
            return [*edges, self._first + self._count * self._batch_size] if edges else []
        # A rank that has a row less than another, and so nothing for a last batch: it gets one of the
        # batch before.
        if edges[-1] >= self._last:
            edges[-1] = self._last - 1
        return [*edges, self._last]


class PreparedRows(Dataset[Batch]):
    """A split of a data set, by slices of an epoch. Files are opened where they are read, in each worker."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        split: str,
        *,
        seed: int,
        is_shuffled: bool,
        window_rows: int,
        transform: Transform | None = None,
    ) -> None:
        self._split, self._transform = split, transform
        self._folder, self._columns = folder, manifest.columns
        self._shards = list(manifest.splits[split])
        self._seed, self._is_shuffled, self._window_rows = seed, is_shuffled, window_rows
        self._files: dict[int, Any] = {}
        groups = []
        for number in range(len(self._shards)):
            metadata = self._file(number).metadata
            groups += [
                Group(number, group, metadata.row_group(group).num_rows)
                for group in range(metadata.num_row_groups)
            ]
        self._groups = tuple(group for group in groups if group.rows)
        self._files = {}
        self._order: Order | None = None
        self._read: dict[Group, dict[str, npt.NDArray[Any]]] = {}
        self._window: tuple[tuple[int, int, int], dict[str, npt.NDArray[Any]]] | None = None

    def __len__(self) -> int:
        return sum(group.rows for group in self._groups)

    def __getitem__(self, wanted: Slice) -> Batch:
        if self._order is None or self._order.epoch != wanted.epoch:
            self._order = Order(self._groups, self._seed, wanted.epoch, self._is_shuffled, self._window_rows)
        parts = [
            {name: values[rows] for name, values in self._of_window(begin, end).items()}
            for begin, end, rows in self._order.windows(wanted.first, wanted.last)
        ]
        batch = {
            name: parts[0][name] if len(parts) == 1 else np.concatenate([p[name] for p in parts])
            for name in self._columns
        }
        if self._transform is not None:
            batch = self._transform(self._split, wanted.epoch, batch)
        return {name: torch.from_numpy(values) for name, values in batch.items()}

    def _of_window(self, begin: int, end: int) -> dict[str, npt.NDArray[Any]]:
        assert self._order is not None
        key = (self._order.epoch, begin, end)
        if self._window is None or self._window[0] != key:
            parts = [
                {name: values[first:last] for name, values in self._of_group(group).items()}
                for group, first, last in self._order.groups_of(begin, end)
            ]
            whole = {name: np.concatenate([part[name] for part in parts]) for name in self._columns}
            self._window = key, whole
        return self._window[1]

    def _of_group(self, group: Group) -> dict[str, npt.NDArray[Any]]:
        if group not in self._read:
            table = self._file(group.shard).read_row_group(group.number, use_threads=False)
            if len(self._read) >= KEPT_GROUPS:
                del self._read[next(iter(self._read))]
            self._read[group] = to_arrays(table, self._columns)
        return self._read[group]

    def _file(self, number: int) -> Any:
        if number not in self._files:
            self._files[number] = open_shard(self._folder, self._shards[number], self._columns)
        return self._files[number]


class Loader(DataLoader[Batch]):
    """A DataLoader that goes on in the middle of an epoch: Lightning keeps its state with each checkpoint.

    What loader workers have read ahead does not count: only what was handed out.
    """

    def __init__(self, rows: PreparedRows, batches: Batches, **more: Any) -> None:
        super().__init__(rows, batch_size=None, sampler=batches, **more)
        self._batches = batches
        self._handed_out = 0

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        # A generator: workers begin to read with the first batch, when the epoch has been told.
        epoch, start = self._batches.start
        self._handed_out = start if epoch == self._batches.epoch else 0
        for batch in super().__iter__():
            self._handed_out += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Where it is in which epoch."""
        return {"epoch": self._batches.epoch, "batches": self._handed_out}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on there; an epoch that had come to its end is not gone on with."""
        self._batches.start = state["epoch"], state["batches"]


class ParquetDataModule(pl.LightningDataModule):
    """Prepared data for a trainable's `build_data`. A batch is a dict of tensors, column to [rows, ...].

    Args:
        folder: of the data set, with its manifest.
        batch_size: rows of a training batch on each worker of a trial.
        seed: of the order.
        loader_workers: processes that read ahead; a slice takes so little that 0 or 1 is mostly enough.
        drop_last: leave out what does not fill a training batch.
        window_rows: rows among which a row is shuffled, in memory at once.
        transform: what is done with each batch on the CPU, in the loader's processes where there are any.
            Let it draw from a seed of (epoch, row) alone: then a resumed trial sees what it would have seen.

    Raises:
        NotPrepared: the folder holds no whole data set; the file at fault is named.
    """

    def __init__(
        self,
        folder: Path,
        batch_size: int,
        *,
        seed: int = 0,
        loader_workers: int = 0,
        drop_last: bool = False,
        window_rows: int = WINDOW_ROWS,
        transform: Transform | None = None,
    ) -> None:
        super().__init__()
        self._folder, self._manifest = folder, Manifest.read(folder)
        self.batch_size, self._drop_last = batch_size, drop_last
        self._seed, self._window_rows = seed, window_rows
        self._loader_workers, self._transform = loader_workers, transform

    def train_dataloader(self) -> DataLoader[Batch]:
        return self._loader("train", is_shuffled=True, drop_last=self._drop_last)

    def val_dataloader(self) -> DataLoader[Batch]:
        return self._loader("val")

    def test_dataloader(self) -> DataLoader[Batch]:
        return self._loader("test")

    def _loader(self, split: str, is_shuffled: bool = False, drop_last: bool = False) -> DataLoader[Batch]:
        if split not in self._manifest.splits:
            known = ", ".join(self._manifest.splits)
            raise NotPrepared(f"{self._folder}: no split '{split}'; it has {known}")
        rows = PreparedRows(
            self._folder,
            self._manifest,
            split,
            seed=self._seed,
            is_shuffled=is_shuffled,
            window_rows=self._window_rows,
            transform=self._transform,
        )
        rank, ranks = _rank()
        batches = Batches(len(rows), self.batch_size, rank=rank, ranks=ranks, drop_last=drop_last)
        return Loader(
            rows,
            batches,
            num_workers=self._loader_workers,
            persistent_workers=self._loader_workers > 0,
            pin_memory=torch.cuda.is_available(),
        )


def _rank() -> tuple[int, int]:
    """This process's number among the workers of its trial, and how many there are."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
