"""A small CNN on scikit-learn's digits: 56,064 parameters, 23 steps an epoch."""

from __future__ import annotations

from dataclasses import dataclass

import lightning.pytorch as pl
from torch.utils.data import DataLoader

from benchmarks import _plain
from trainables._batches import Rows, batches
from trainables._classifier import SgdClassifier

METRIC, MODE = "val_acc", "max"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Knobs of SGD; network and batches stand still, so that an epoch costs the same in every trial."""

    lr: float = 0.05
    """Step size, > 0."""
    momentum: float = 0.9
    """From 0 to below 1."""
    weight_decay: float = 1e-4
    """L2 penalty, >= 0."""


class Digits(pl.LightningDataModule):
    """1,437 training and 360 validation rows."""

    def train_dataloader(self) -> DataLoader[Rows]:
        return batches(_plain.rows("cnn")[0], _plain.BATCH_SIZE, shuffle=True)

    def val_dataloader(self) -> DataLoader[Rows]:
        return batches(_plain.rows("cnn")[1], 360, shuffle=False)


def build_model(params: Params) -> SgdClassifier:
    return SgdClassifier(
        _plain.cnn(), lr=params.lr, momentum=params.momentum, weight_decay=params.weight_decay
    )


def build_data(params: Params) -> Digits:
    return Digits()
