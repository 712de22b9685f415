"""scikit-learn's digits as batches."""

from __future__ import annotations

from functools import cache

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader

from trainables._shared.tensor_loader import Rows, batches


class Digits(pl.LightningDataModule):
    """1,200 training, 300 validation and 297 test rows, split once with a fixed seed."""

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self) -> DataLoader[Rows]:
        return batches(_rows()["train"], self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader[Rows]:
        return batches(_rows()["val"], 300, shuffle=False)

    def test_dataloader(self) -> DataLoader[Rows]:
        return batches(_rows()["test"], 300, shuffle=False)


@cache
def _rows() -> dict[str, Rows]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    inputs = torch.from_numpy(images).float()[order] / 16
    targets = torch.from_numpy(labels).long()[order]
    cuts = {"train": slice(0, 1200), "val": slice(1200, 1500), "test": slice(1500, None)}
    return {part: (inputs[cut], targets[cut]) for part, cut in cuts.items()}
