"""Fashion-MNIST as batches: the data module that the models here share."""

from __future__ import annotations

import lightning.pytorch as pl
from torch.utils.data import DataLoader

from trainables._shared import fashion_mnist
from trainables._shared.tensor_loader import Rows, batches


class FashionMnist(pl.LightningDataModule):
    """Training rows from the first 50,000 images, validation from the last 10,000, all test rows.

    Args:
        rows: training rows, 0 = all.
        batch_size: rows of a training batch.
    """

    def __init__(self, rows: int, batch_size: int) -> None:
        super().__init__()
        self._rows, self.batch_size = rows, batch_size

    def train_dataloader(self) -> DataLoader[Rows]:
        rows = fashion_mnist.rows("train", fashion_mnist.train_rows(self._rows))
        return batches(rows, self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader[Rows]:
        return batches(fashion_mnist.rows("val", fashion_mnist.val_rows(self._rows)), 500, shuffle=False)

    def test_dataloader(self) -> DataLoader[Rows]:
        return batches(fashion_mnist.rows("test", fashion_mnist.TEST_ROWS), 500, shuffle=False)
