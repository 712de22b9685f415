"""Fashion-MNIST as batches: the data module that the models here share."""

from __future__ import annotations

import lightning.pytorch as pl
from torch.utils.data import DataLoader

from trainables import _fashion_mnist
from trainables._batches import Rows, batches

ALL_ROWS = 50_000
TEST_ROWS = 10_000


def check_rows(rows: int) -> None:
    """Refuse a knob `rows` that is out of range.

    Raises:
        ValueError: it is.
    """
    if not 0 <= rows <= ALL_ROWS:
        raise ValueError(f"rows {rows}: from 0 (= all) to {ALL_ROWS:,}")


def train_rows(rows: int) -> int:
    """Images that a knob `rows` trains on; 0 = all."""
    return rows or ALL_ROWS


def val_rows(rows: int) -> int:
    """Images that validate: a third as many as train, from 1 to 10,000."""
    return min(max(train_rows(rows) // 3, 1), 10_000)


def describe(rows: int) -> str:
    """One line for the plan."""
    return (
        f"Fashion-MNIST in {_fashion_mnist.find()}: {train_rows(rows):,} rows to train on, "
        f"{val_rows(rows):,} to validate, {TEST_ROWS:,} to test"
    )


class FashionMnist(pl.LightningDataModule):
    """Training rows from the first 50,000 images, validation from the last 10,000, all test rows.

    Args:
        rows: training rows, 0 = all.
        batch_size: rows of a training batch.
    """

    def __init__(self, rows: int, batch_size: int) -> None:
        super().__init__()
        self._rows, self._batch_size = rows, batch_size

    def train_dataloader(self) -> DataLoader[Rows]:
        rows = _fashion_mnist.rows("train", train_rows(self._rows))
        return batches(rows, self._batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader[Rows]:
        return batches(_fashion_mnist.rows("val", val_rows(self._rows)), 500, shuffle=False)

    def test_dataloader(self) -> DataLoader[Rows]:
        return batches(_fashion_mnist.rows("test", TEST_ROWS), 500, shuffle=False)
