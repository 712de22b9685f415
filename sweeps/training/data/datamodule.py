"""Prepared rows as batches: whole slices of memory, shuffled, shared out to ranks and loader workers.

What a batch is follows from (seed, epoch, position) alone. So a resumed trial sees what it would have
seen, any number of loader workers gives the same batches in the same order, and all ranks have as many.

Rows were shuffled once, when they were written. Each epoch takes the row groups in another order (seeded)
and shuffles rows within a window: a training batch gathers its rows one by one, but out of the few groups
of a window. Batches to validate and to test are slices of contiguous memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from sweeps.common.seeding import seed_of_run
from sweeps.training.data.sampler import WINDOW_ROWS, Batches, Group, Order, Slice
from sweeps.training.data.shards import Column, Manifest, NotPrepared, Shard, mapped, open_shard, to_arrays

Batch = dict[str, torch.Tensor]
"""Column to [rows, ...]."""
Columns = dict[str, npt.NDArray[Any]]
"""The same as it was stored."""
Transform = Callable[[str, int, Columns], Columns]
"""Of a split, an epoch and a batch as it was stored, the batch that is trained on."""
KEPT_GROUPS = 64
"""Row groups of a shard whose numbers are kept: batch after batch takes from those of a window."""


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
        # What each batch asks for: bytes of a row, PyTorch's type, shape.
        self._layout = {
            name: (column.row_bytes, torch.from_numpy(np.empty(0, column.dtype)).dtype, column.shape)
            for name, column in self._columns.items()
        }
        self._has_cuda = torch.cuda.is_available()
        groups = []
        for number, shard in enumerate(self._shards):
            metadata = open_shard(folder, shard, self._columns)[0].metadata
            groups += [
                Group(number, group, metadata.row_group(group).num_rows)
                for group in range(metadata.num_row_groups)
            ]
        self._groups = tuple(group for group in groups if group.rows)
        self._order: Order | None = None
        self._files: dict[int, _File] = {}

    def __len__(self) -> int:
        return sum(group.rows for group in self._groups)

    def __getitem__(self, wanted: Slice) -> Batch:
        if self._order is None or self._order.epoch != wanted.epoch:
            self._order = Order(self._groups, self._seed, wanted.epoch, self._is_shuffled, self._window_rows)
        rows = wanted.last - wanted.first
        pins = self._has_cuda and get_worker_info() is None  # CUDA's memory is of one process
        batch = {
            name: torch.empty((rows, row_bytes), dtype=torch.uint8, pin_memory=pins)
            for name, (row_bytes, _, _) in self._layout.items()
        }
        places, done = {name: content.numpy() for name, content in batch.items()}, 0
        for group, chosen, count in self._pieces(self._order, wanted.first, wanted.last):
            for name, values in self._file(group.shard).values(group.number).items():
                place = places[name][done : done + count]
                if isinstance(chosen, slice):
                    place[:] = values[chosen]
                else:
                    np.take(values, chosen, axis=0, out=place, mode="clip")  # `raise` would copy twice
            done += count
        found = {
            name: batch[name].view(dtype).view(rows, *shape)
            for name, (_, dtype, shape) in self._layout.items()
        }
        if self._transform is None:
            return found
        stored = {name: values.numpy() for name, values in found.items()}
        made = self._transform(self._split, wanted.epoch, stored)
        return {name: torch.from_numpy(values) for name, values in made.items()}

    @staticmethod
    def _pieces(
        order: Order, first: int, last: int
    ) -> Iterator[tuple[Group, slice | npt.NDArray[np.int64], int]]:
        """What a slice of an epoch consists of: groups, which of their rows, how many these are."""
        if not order.is_shuffled:
            for group, begin, end in order.groups_of(first, last):
                yield group, slice(begin, end), end - begin
            return
        for begin, end, turns in order.windows(first, last):
            passed = 0
            for group, first_row, last_row in order.groups_of(begin, end):
                count = last_row - first_row
                inside = turns[(turns >= passed) & (turns < passed + count)]
                yield group, inside + (first_row - passed), len(inside)
                passed += count

    def _file(self, number: int) -> _File:
        if number not in self._files:
            self._files[number] = _File(self._folder, self._shards[number], self._columns)
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
        try:
            for batch in super().__iter__() if self.num_workers or self.pin_memory else self._here():
                self._handed_out += 1
                yield batch
        except NotPrepared as error:  # one of a loader worker comes with its traceback in the text
            raise NotPrepared(str(error).rpartition("NotPrepared: ")[2].strip()) from None

    def _here(self) -> Iterator[Batch]:
        """In this process, without the DataLoader's own 20 us a batch: a fourth of a small one."""
        return (self.dataset[wanted] for wanted in self._batches)

    def state_dict(self) -> dict[str, int]:
        """Where it is in which epoch."""
        return {"epoch": self._batches.epoch, "batches": self._handed_out}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on there; an epoch that had come to its end is not gone on with."""
        self._batches.start = state["epoch"], state["batches"]


class _File:
    """A shard that is read: arrays where they lie in the mapped file, numbers from Parquet's reader."""

    def __init__(self, folder: Path, shard: Shard, columns: Mapping[str, Column]) -> None:
        self._path, self._columns = folder / shard.file, columns
        self._file, self._content = open_shard(folder, shard, columns)
        self._groups: dict[int, dict[str, npt.NDArray[np.uint8]]] = {}

    def values(self, group: int) -> Mapping[str, npt.NDArray[np.uint8]]:
        """Of a row group: column to [rows, bytes].

        Raises:
            NotPrepared: it was written in another way than `shards.write_shard` does.
        """
        if group not in self._groups:
            if len(self._groups) >= KEPT_GROUPS:
                del self._groups[next(iter(self._groups))]
            self._groups[group] = self._read(group)
        return self._groups[group]

    def _read(self, group: int) -> dict[str, npt.NDArray[np.uint8]]:
        numbers = {name: column for name, column in self._columns.items() if not column.shape}
        table = self._file.read_row_group(group, columns=list(numbers), use_threads=False)
        found = {name: values.view(np.uint8) for name, values in to_arrays(table, numbers).items()}
        try:
            return {
                name: mapped(self._content, self._file.metadata, group, name, column.row_bytes)
                if column.shape
                else found[name].reshape(-1, column.row_bytes)
                for name, column in self._columns.items()
            }
        except ValueError as error:
            raise NotPrepared(f"{self._path}: {error}; prepare the data again") from None


class ParquetDataModule(pl.LightningDataModule):
    """Prepared data for a trainable's `build_data`. A batch is a dict of tensors, column to [rows, ...].

    Args:
        folder: of the data set, with its manifest.
        batch_size: rows of a training batch on each worker of a trial.
        seed: of the order; None: that of the run (`--seed`).
        loader_workers: processes that read ahead; a slice takes so little that 0 or 1 is mostly enough.
        drop_last: leave out what does not fill a training batch.
        window_rows: rows among which a row is shuffled.
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
        seed: int | None = None,
        loader_workers: int = 0,
        drop_last: bool = False,
        window_rows: int = WINDOW_ROWS,
        transform: Transform | None = None,
    ) -> None:
        super().__init__()
        self._folder, self._manifest = folder, Manifest.read(folder)
        self.batch_size, self._drop_last = batch_size, drop_last
        self._seed = seed_of_run() if seed is None else seed
        self._window_rows = window_rows
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
        rank, ranks = self._rank()
        batches = Batches(len(rows), self.batch_size, rank=rank, ranks=ranks, drop_last=drop_last)
        return Loader(
            rows,
            batches,
            collate_fn=_as_it_is,
            num_workers=self._loader_workers,
            persistent_workers=self._loader_workers > 0,
            pin_memory=torch.cuda.is_available(),
        )

    def _rank(self) -> tuple[int, int]:
        """This process's number among the workers of its trainer, and how many there are.

        Not of the process group: that outlives the training, and a test by the first worker alone would
        be handed its share of the rows.
        """
        if self.trainer is None:
            return 0, 1
        return self.trainer.global_rank, self.trainer.world_size


def _as_it_is(batch: Any) -> Any:
    return batch  # the loader's own way walks through what are tensors already
