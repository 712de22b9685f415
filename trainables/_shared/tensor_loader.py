"""Rows that are already tensors, cut into whole batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, TensorDataset

from sweeps.training import read_ahead

Rows = tuple[torch.Tensor, ...]
"""Inputs [rows, ...] and labels [rows]."""


def batches(rows: Rows, batch_size: int, *, shuffle: bool) -> DataLoader[Rows]:
    """A loader that takes a batch with one index, instead of row by row.

    Args:
        rows: inputs and labels, the same number of each.
        batch_size: rows of a batch; the last may have fewer.
        shuffle: a new order each epoch, from torch's seeded generator.
    """
    data = _Rows(*rows)
    order = RandomSampler(data) if shuffle else SequentialSampler(data)
    return _Loader(data, sampler=_Order(order, batch_size, drop_last=False), batch_size=None)


class _Loader(DataLoader[Rows]):
    def __iter__(self) -> Any:  # an iterator of Rows; PyTorch names its own class of iterators
        return read_ahead(super().__iter__())


class _Rows(TensorDataset):
    """Gathers a batch at once, for a GPU into pinned memory: it is copied while the step goes on."""

    def __init__(self, *rows: torch.Tensor) -> None:
        super().__init__(*rows)
        self._pins = torch.cuda.is_available()

    def __getitem__(self, chosen: int | torch.Tensor) -> Rows:
        if isinstance(chosen, int):
            return tuple(rows[chosen] for rows in self.tensors)
        # Not `rows[chosen]`, which takes seven times as long for images of bytes.
        return tuple(
            torch.index_select(rows, 0, chosen, out=self._place(rows, chosen)) for rows in self.tensors
        )

    def _place(self, rows: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        return torch.empty((len(chosen), *rows.shape[1:]), dtype=rows.dtype, pin_memory=self._pins)


class _Order(BatchSampler):
    """The numbers of the rows of each batch, as a tensor: a list of 50,000 takes 10 ms."""

    sampler: RandomSampler | SequentialSampler

    def __iter__(self) -> Iterator[Any]:
        order = torch.arange(len(self.sampler))
        if isinstance(self.sampler, RandomSampler):  # the order that it would draw
            own = torch.Generator().manual_seed(int(torch.empty((), dtype=torch.int64).random_()))
            order = torch.randperm(len(order), generator=own)
        yield from torch.split(order, self.batch_size)
