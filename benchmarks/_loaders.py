"""The ways to load the same images that `benchmarks.data_path` compares, and how fast one is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks._images import Images
from sweeps.training.data.datamodule import ParquetDataModule


class Files(Dataset[tuple[torch.Tensor, int]]):
    """An image file is a row."""

    def __init__(self, paths: Sequence[Path], labels: Sequence[int]) -> None:
        self._paths, self._labels = paths, labels

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        from PIL import Image

        return torch.from_numpy(np.array(Image.open(self._paths[row]))), self._labels[row]


def loaders(images: Images, batch_size: int, workers: int) -> dict[str, Callable[[], Iterable[Any]]]:
    """Arm to what makes its batches: tensors, or dicts with an `image`."""
    settings: dict[str, Any] = {
        "batch_size": batch_size, "num_workers": workers, "persistent_workers": workers > 0,
    }  # fmt: skip

    def mmap() -> Iterable[torch.Tensor]:
        return _Slices(images, batch_size, into_one_buffer=True)

    def mmap_new_memory() -> Iterable[torch.Tensor]:
        return _Slices(images, batch_size, into_one_buffer=False)

    def parquet() -> Iterable[Any]:
        return ParquetDataModule(images.parquet(), batch_size, loader_workers=workers).train_dataloader()

    def in_order() -> Iterable[Any]:
        return ParquetDataModule(images.parquet(), batch_size, loader_workers=workers).val_dataloader()

    def tensors() -> Iterable[Any]:
        rows = TensorDataset(torch.from_numpy(images.array), torch.from_numpy(images.labels))
        return DataLoader(rows, shuffle=True, **settings)

    def litdata() -> Iterable[Any]:
        from litdata import StreamingDataLoader, StreamingDataset

        rows: Any = StreamingDataset(str(images.litdata()), shuffle=True)
        batches: Iterable[Any] = StreamingDataLoader(rows, **settings)
        return batches

    def files() -> Iterable[Any]:
        return DataLoader(Files(images.paths(), images.labels.tolist()), shuffle=True, **settings)

    return {
        "mmap": mmap, "mmap, new memory": mmap_new_memory, "in order": in_order, "parquet": parquet,
        "tensors": tensors, "litdata": litdata, "files": files,
    }  # fmt: skip


def rows_per_s(batches: Iterable[Any], at_least_s: float) -> float:
    """Of whole passes, behind one that warms up."""
    rows, began = 0, 0.0
    while True:
        rows += sum(len(images_of(batch)) for batch in batches)
        if not began:
            rows, began = 0, time.perf_counter()
        elif (seconds := time.perf_counter() - began) >= at_least_s:
            return rows / seconds


def images_of(batch: Any) -> torch.Tensor:
    """A batch is a dict, a list of images and labels, or images alone."""
    found = batch["image"] if isinstance(batch, dict) else batch[0] if isinstance(batch, list) else batch
    assert isinstance(found, torch.Tensor)
    return found


class _Slices:
    """Slices of a mapped array, copied out."""

    # Into one buffer: the raw rate of reading, which the goal is judged by. A loader can't do that, for the
    # batch before is still in use: what new memory costs (the system clears each page) the other arm tells.
    def __init__(self, images: Images, batch_size: int, *, into_one_buffer: bool) -> None:
        self._rows, self._batch_size = images.mapped(), batch_size
        self._buffer = np.empty_like(self._rows[:batch_size]) if into_one_buffer else None

    def __iter__(self) -> Iterator[torch.Tensor]:
        for first in range(0, len(self._rows), self._batch_size):
            found = self._rows[first : first + self._batch_size]
            batch = np.empty_like(found) if self._buffer is None else self._buffer[: len(found)]
            batch[:] = found
            yield torch.from_numpy(batch)
