"""A small MLP on scikit-learn's digits (1,797 images of 8x8): an epoch takes a tenth of a second."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader

from trainables._batches import Rows, batches
from trainables._classifier import SgdClassifier

METRIC, MODE = "val_acc", "max"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Knobs of the MLP and of its data."""

    lr: float = 0.05
    """SGD step size, > 0."""
    momentum: float = 0.9
    """SGD momentum, from 0 to below 1."""
    hidden: int = 32
    """Units of the hidden layer, > 0."""
    batch_size: int = 64
    """Rows of a batch, > 0."""

    def __post_init__(self) -> None:
        for name in ("lr", "hidden", "batch_size"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} {getattr(self, name)}: must be above 0")


class Digits(pl.LightningDataModule):
    """1,200 training, 300 validation and 297 test rows, split once with a fixed seed."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self._batch_size = params.batch_size

    def train_dataloader(self) -> DataLoader[Rows]:
        return batches(_rows()["train"], self._batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader[Rows]:
        return batches(_rows()["val"], 300, shuffle=False)

    def test_dataloader(self) -> DataLoader[Rows]:
        return batches(_rows()["test"], 300, shuffle=False)


def build_model(params: Params) -> SgdClassifier:
    net = nn.Sequential(nn.Linear(64, params.hidden), nn.ReLU(), nn.Linear(params.hidden, 10))
    return SgdClassifier(net, lr=params.lr, momentum=params.momentum, weight_decay=0.0)


def build_data(params: Params) -> Digits:
    return Digits(params)


def describe_data(params: Params) -> str:
    return "digits, inside the scikit-learn package: 1,200 rows to train on, 300 to validate"


@cache
def _rows() -> dict[str, Rows]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    inputs = torch.from_numpy(images).float()[order] / 16
    targets = torch.from_numpy(labels).long()[order]
    cuts = {"train": slice(0, 1200), "val": slice(1200, 1500), "test": slice(1500, None)}
    return {part: (inputs[cut], targets[cut]) for part, cut in cuts.items()}
