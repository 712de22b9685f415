"""A small CNN on Fashion-MNIST: two convolutions, one hidden layer."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from trainables import _fashion_data
from trainables._classifier import SgdClassifier
from trainables._fashion_data import FashionMnist

METRIC, MODE = "val_acc", "max"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Knobs of the network and of its data."""

    lr: float = 0.03
    """SGD step size, > 0."""
    momentum: float = 0.9
    """SGD momentum, from 0 to below 1."""
    weight_decay: float = 1e-4
    """L2 penalty of SGD, >= 0."""
    width: int = 8
    """Channels of the first convolution, > 0; the second has twice as many."""
    dropout: float = 0.1
    """Share of hidden units dropped, from 0 to below 1."""
    batch_size: int = 64
    """Rows of a batch, > 0."""
    rows: int = 6_000
    """Training rows, up to 50,000; a third as many validate, up to 10,000. 0 = all."""

    def __post_init__(self) -> None:
        _fashion_data.check_rows(self.rows)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout {self.dropout}: from 0 to below 1")
        for name in ("lr", "width", "batch_size"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} {getattr(self, name)}: must be above 0")


def build_model(params: Params) -> SgdClassifier:
    width = params.width
    net = nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),  # [batch, width, 28, 28]
        nn.ReLU(),
        nn.MaxPool2d(2),  # [batch, width, 14, 14]
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),  # [batch, 2 * width, 7, 7]
        nn.Flatten(),
        nn.Dropout(params.dropout),
        nn.Linear(2 * width * 49, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    return SgdClassifier(net, lr=params.lr, momentum=params.momentum, weight_decay=params.weight_decay)


def build_data(params: Params) -> FashionMnist:
    return FashionMnist(params.rows, params.batch_size)


def describe_data(params: Params) -> str:
    return _fashion_data.describe(params.rows)
