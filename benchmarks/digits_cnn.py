"""A small CNN on scikit-learn's digits: 56,064 parameters, 23 steps an epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks._digits import Digits
    from trainables._shared.classifier import SgdClassifier

METRIC, MODE = "val_acc", "max"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Hyperparameters of SGD; network and batches stand still, so that an epoch costs the same in every
    trial."""

    lr: float = 0.05
    """Step size, > 0."""
    momentum: float = 0.9
    """From 0 to below 1."""
    weight_decay: float = 1e-4
    """L2 penalty, >= 0."""


def build_model(params: Params) -> SgdClassifier:
    from benchmarks import _plain
    from trainables._shared.classifier import SgdClassifier

    return SgdClassifier(
        _plain.cnn(), lr=params.lr, momentum=params.momentum, weight_decay=params.weight_decay
    )


def build_data(params: Params) -> Digits:
    from benchmarks._digits import Digits

    return Digits()
