"""Rows that are already tensors, cut into whole batches."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler

Rows = tuple[torch.Tensor, ...]
"""Inputs [rows, ...] and labels [rows]."""


def batches(rows: Rows, batch_size: int, *, shuffle: bool) -> DataLoader[Rows]:
    """A loader that takes a batch with one index, instead of row by row.

    Args:
        rows: inputs and labels, the same number of each.
        batch_size: rows of a batch; the last may have fewer.
        shuffle: a new order each epoch, from torch's seeded generator.
    """
    data = _WholeBatches(rows)
    order = RandomSampler(data) if shuffle else SequentialSampler(data)
    return DataLoader(data, sampler=_Order(order, batch_size, drop_last=False), batch_size=None)


class _WholeBatches(Dataset[Rows]):
    """Gathers a batch at once, for a GPU into pinned memory: it is copied while the step goes on."""

    def __init__(self, rows: Rows) -> None:
        self._rows, self._pins = rows, torch.cuda.is_available()

    def __len__(self) -> int:
        return len(self._rows[0])

    def __getitem__(self, chosen: torch.Tensor) -> Rows:
        # Not `rows[chosen]`, which takes seven times as long for images of bytes.
        return tuple(
            torch.index_select(rows, 0, chosen, out=self._place(rows, len(chosen))) for rows in self._rows
        )

    def _place(self, rows: torch.Tensor, count: int) -> torch.Tensor:
        return torch.empty((count, *rows.shape[1:]), dtype=rows.dtype, pin_memory=self._pins)


class _Order(BatchSampler):
    """The numbers of the rows of each batch, as a tensor in place of a list."""

    def __iter__(self) -> Iterator[torch.Tensor]:  # type: ignore[override]
        yield from torch.split(torch.tensor(list(self.sampler)), self.batch_size)
