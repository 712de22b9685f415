"""Rows that are already tensors, cut into whole batches."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
)

Rows = tuple[torch.Tensor, torch.Tensor]
"""Inputs [rows, ...] and labels [rows]."""


def batches(rows: Rows, batch_size: int, *, shuffle: bool) -> DataLoader[Rows]:
    """A loader that takes a batch with one index, instead of row by row.

    Args:
        rows: inputs and labels, the same number of each.
        batch_size: rows of a batch; the last may have fewer.
        shuffle: a new order each epoch, from torch's seeded generator.
    """
    data: Any = TensorDataset(*rows)
    order = RandomSampler(data) if shuffle else SequentialSampler(data)
    return DataLoader(
        data,
        sampler=BatchSampler(order, batch_size, drop_last=False),
        batch_size=None,
        pin_memory=torch.cuda.is_available(),  # the step goes on while its next batch is copied
    )
