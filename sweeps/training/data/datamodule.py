"""Prepared rows as batches, distributed to ranks and loader workers.

A batch is a function of (seed, epoch, position) alone: a resumed trial trains on the batches of an
uninterrupted one, with any number of loader workers. A training batch gathers its rows from the few row
groups of a window.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import lightning.pytorch as pl
import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from sweeps.training.data.sampler import Batches, Order, Slice
from sweeps.training.data.shards import Manifest, MappedShard, NotPrepared

Batch = dict[str, torch.Tensor]
"""Column to [rows, ...]."""
Columns = dict[str, npt.NDArray[Any]]
"""The same as NumPy arrays."""
Transform = Callable[[str, int, Columns], Columns]
"""From split, epoch and stored batch to the batch to train on."""
_Batch = TypeVar("_Batch")


def seed_of_run() -> int:
    """For `build_data`: the seed that Lightning's `seed_everything` leaves for other processes, or 0."""
    return int(os.environ.get("PL_GLOBAL_SEED", 0))


class PreparedRows(Dataset[Batch]):
    """A split of a data set, indexed by slices of an epoch. Each loader worker opens the files itself."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        split: str,
        *,
        seed: int,
        window_rows: int | None,
        transform: Transform | None = None,
    ) -> None:
        self._split, self._transform, self.has_transform = split, transform, transform is not None
        self._folder, self._columns = folder, manifest.columns
        self._shards = list(manifest.splits[split])
        self._seed, self._window_rows = seed, window_rows
        # Of each column: bytes of a row, PyTorch's type, shape.
        self._layout = {
            name: (column.row_bytes, torch.from_numpy(np.empty(0, column.dtype)).dtype, column.shape)
            for name, column in self._columns.items()
        }
        self._has_cuda = torch.cuda.is_available()
        rows_of_shards = [MappedShard(folder, each, self._columns).rows_of_groups for each in self._shards]
        self._groups = [
            (shard, group) for shard, found in enumerate(rows_of_shards) for group in range(len(found))
        ]
        """Shard, and number in it, of each row group."""
        self._rows_of_groups = np.concatenate([np.array(found, np.int64) for found in rows_of_shards])
        self._order: Order | None = None
        self._readers: dict[int, Callable[[int], Columns]] = {}

    def __len__(self) -> int:
        return int(self._rows_of_groups.sum())

    def __getitem__(self, wanted: Slice) -> Batch:
        if self._order is None or self._order.epoch != wanted.epoch:
            self._order = Order(self._rows_of_groups, self._seed, wanted.epoch, self._window_rows)
        rows = wanted.last - wanted.first
        # CUDA's memory belongs to one process. And PyTorch keeps a pinned block until its copy to the GPU has
        # ended, but not for an array that begins inside one, as a transform may make it.
        pins = self._has_cuda and self._transform is None and get_worker_info() is None
        batch = {
            name: torch.empty((rows, row_bytes), dtype=torch.uint8, pin_memory=pins)
            for name, (row_bytes, _, _) in self._layout.items()
        }
        places, done = {name: content.numpy() for name, content in batch.items()}, 0
        for number, chosen in self._order.pieces(wanted.first, wanted.last):
            shard, group = self._groups[number]
            for name, values in self._reader(shard)(group).items():
                place = places[name][done : done + len(chosen)]
                np.take(values, chosen, axis=0, out=place, mode="clip")  # mode "raise" would copy twice
            done += len(chosen)
        found = {
            name: batch[name].view(dtype).view(rows, *shape)
            for name, (_, dtype, shape) in self._layout.items()
        }
        if self._transform is None:
            return found
        stored = {name: values.numpy() for name, values in found.items()}
        made = self._transform(self._split, wanted.epoch, stored)
        return {name: torch.from_numpy(values) for name, values in made.items()}

    def _reader(self, number: int) -> Callable[[int], Columns]:
        """From a row group of a shard to its columns as bytes [rows, bytes]."""
        if number not in self._readers:
            shard = MappedShard(self._folder, self._shards[number], self._columns)
            # Successive batches read the row groups of one window.
            self._readers[number] = lru_cache(maxsize=64)(shard.read_group)
        return self._readers[number]


class Loader(DataLoader[Batch]):
    """A DataLoader that resumes in the middle of an epoch: Lightning saves its state in each checkpoint.

    The state counts batches handed out, not those that loader workers have read ahead.
    """

    def __init__(self, rows: PreparedRows, batches: Batches, **more: Any) -> None:
        super().__init__(rows, batch_size=None, sampler=batches, **more)
        self._batches, self._has_transform = batches, rows.has_transform
        self._handed_out = 0

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        # A generator: workers start with the first batch, after the epoch has been set.
        epoch, start = self._batches.start
        self._handed_out = start if epoch == self._batches.epoch else 0
        try:
            # In this process without the DataLoader's own 20 us per batch, a quarter of a small one's time.
            alone = not self.num_workers and not self.pin_memory
            # No `map`: it would take a StopIteration of the user's transform for the end of the epoch.
            own = (self.dataset[wanted] for wanted in self._batches)
            with torch.random.fork_rng(devices=()):  # PyTorch draws a number; a resumed run draws it again
                found: Iterator[Batch] = own if alone else super().__iter__()
            # A transform may draw from generators of this process, whose states a resume goes on with.
            for batch in found if self.num_workers or self._has_transform else read_ahead(found):
                self._handed_out += 1
                yield batch
        except NotPrepared as error:  # a loader worker's text holds its traceback
            raise NotPrepared(str(error).rpartition("NotPrepared: ")[2].strip()) from None

    def state_dict(self) -> dict[str, int]:
        """Position in the epoch."""
        rows = self._batches.batch_size
        return {"epoch": self._batches.epoch, "batches": self._handed_out, "batch_size": rows}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue at this position, also with other batches; it has no effect on another epoch."""
        rows = self._batches.batch_size
        passed = state["batches"] * state["batch_size"]
        self._batches.start = state["epoch"], passed // rows


def read_ahead(batches: Iterable[_Batch]) -> Iterator[_Batch]:
    """The same batches in the same order. One is ready when a step ends, where this process uses a GPU.

    For the `__iter__` of a loader. The first batch is made by the caller's thread, which may draw the order
    of the epoch; no other one may draw from a generator of the process, or a resumed run would go on with
    other numbers. If the loader has a state, it counts what is handed out here, not what was read ahead.
    """
    if not torch.cuda.is_available():
        return iter(batches)  # the step needs the cores
    return read_in_thread(batches, partial(torch.cuda.set_device, torch.cuda.current_device()))


def read_in_thread(batches: Iterable[_Batch], begin: Callable[[], object]) -> Generator[_Batch, None, None]:
    """Batches of which all but the first are made by a thread, which calls `begin` before."""
    made_one_by_one = ((batch,) for batch in batches)  # None is the end, and may be a batch
    with ThreadPoolExecutor(1, "read-ahead", begin) as thread:
        made = next(made_one_by_one, None)
        while made is not None:
            following = thread.submit(lambda: next(made_one_by_one, None))
            yield from made
            made = following.result()


class ParquetDataModule(pl.LightningDataModule):
    """Prepared data for a trainable's `build_data`. A batch is a dict of tensors, column to [rows, ...].

    Args:
        folder: the data set's, with its manifest.
        batch_size: rows of a training batch on each worker of a trial.
        seed: of the order; None: the run's (`--seed`).
        loader_workers: processes that read ahead; 0 or 1 is enough for most data.
        drop_last: drop a training batch that is not full.
        window_rows: rows of a shuffling window.
        transform: applied to each batch on the CPU, in the loader's processes if there are any. It should
            draw from a seed of (epoch, row) alone, so that a resumed trial repeats it.

    Raises:
        NotPrepared: the folder holds no complete data set; the message names the file.
    """

    def __init__(
        self,
        folder: Path,
        batch_size: int,
        *,
        seed: int | None = None,
        loader_workers: int = 0,
        drop_last: bool = False,
        window_rows: int = 8192,
        transform: Transform | None = None,
    ) -> None:
        super().__init__()
        self._folder, self._manifest = folder, Manifest.read(folder)
        self.batch_size, self._drop_last = batch_size, drop_last
        self._seed = seed_of_run() if seed is None else seed
        self._window_rows = window_rows
        self._loader_workers, self._transform = loader_workers, transform

    def train_dataloader(self) -> DataLoader[Batch]:
        return self._loader("train", self._window_rows, self._drop_last)

    def val_dataloader(self) -> DataLoader[Batch]:
        return self._loader("val")

    def test_dataloader(self) -> DataLoader[Batch]:
        return self._loader("test")

    def _loader(
        self, split: str, window_rows: int | None = None, drop_last: bool = False
    ) -> DataLoader[Batch]:
        if split not in self._manifest.splits:
            known = ", ".join(self._manifest.splits)
            raise NotPrepared(f"{self._folder}: no split '{split}'; it has {known}")
        rows = PreparedRows(
            self._folder,
            self._manifest,
            split,
            seed=self._seed,
            window_rows=window_rows,
            transform=self._transform,
        )
        # Not of the process group: that outlives the training, and a test by the first worker alone would
        # get only its share of the rows.
        trainer = self.trainer
        rank, ranks = (trainer.global_rank, trainer.world_size) if trainer else (0, 1)
        batches = Batches(len(rows), self.batch_size, rank=rank, ranks=ranks, drop_last=drop_last)
        return Loader(
            rows,
            batches,
            num_workers=self._loader_workers,
            persistent_workers=self._loader_workers > 0,
            pin_memory=torch.cuda.is_available(),
        )
