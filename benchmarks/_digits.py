"""The rows of the CNN as batches of Lightning."""

from __future__ import annotations

import lightning.pytorch as pl
from torch.utils.data import DataLoader

from benchmarks import _plain
from trainables._shared.tensor_loader import Rows, batches


class Digits(pl.LightningDataModule):
    """1,437 training and 360 validation rows.

    Args:
        model: whose rows, of benchmarks._plain.CUTS.
    """

    def __init__(self, model: str = "cnn") -> None:
        super().__init__()
        self._model = model

    def train_dataloader(self) -> DataLoader[Rows]:
        return batches(_plain.rows(self._model)[0], _plain.BATCH_SIZE, shuffle=True)

    def val_dataloader(self) -> DataLoader[Rows]:
        return batches(_plain.rows(self._model)[1], 360, shuffle=False)
