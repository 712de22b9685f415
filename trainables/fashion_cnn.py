"""A small CNN on Fashion-MNIST: one to three convolutions (two by default), one hidden layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainables._shared import fashion_mnist

if TYPE_CHECKING:
    from torch import nn

    from trainables._shared.classifier import SgdClassifier
    from trainables._shared.fashion_data import FashionMnist

METRIC, MODE = "val_acc", "max"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Hyperparameters of the network and of its data."""

    lr: float = 0.03
    """SGD step size, > 0."""
    momentum: float = 0.9
    """SGD momentum, from 0 to below 1."""
    weight_decay: float = 1e-4
    """L2 penalty of SGD, >= 0."""
    width: int = 8
    """Channels of the first convolution, > 0."""
    convolutions: int = 2
    """Convolutions, each with a pooling that halves the image, from 1 to 3."""
    width_2: int = 0
    """Channels of the second convolution; 0 = twice those of the first."""
    width_3: int = 0
    """Channels of the third convolution; 0 = twice those of the second."""
    dropout: float = 0.1
    """Share of hidden units dropped, from 0 to below 1."""
    batch_size: int = 64
    """Rows of a batch, > 0."""
    rows: int = 6_000
    """Training rows, up to 50,000; a third as many validate, up to 10,000. 0 = all."""

    def __post_init__(self) -> None:
        fashion_mnist.check_rows(self.rows)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout {self.dropout}: from 0 to below 1")
        if not 1 <= self.convolutions <= 3:
            raise ValueError(f"convolutions {self.convolutions}: from 1 to 3")
        for number, width in ((2, self.width_2), (3, self.width_3)):
            if width < 0:
                raise ValueError(f"width_{number} {width}: must be above 0, or 0 = twice the one before")
            if width and number > self.convolutions:
                raise ValueError(
                    f"width_{number} {width}: there is no convolution {number} of {self.convolutions}"
                )
        for name in ("lr", "width", "batch_size"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} {getattr(self, name)}: must be above 0")

    @property
    def widths(self) -> list[int]:
        """Channels of each convolution."""
        widths = [self.width]
        for width in (self.width_2, self.width_3)[: self.convolutions - 1]:
            widths.append(width or 2 * widths[-1])
        return widths


def build_model(params: Params) -> SgdClassifier:
    from torch import nn  # here, not above: the plan needs Params, and answers in a second without

    from trainables._shared.channels_last import Conv2d
    from trainables._shared.classifier import SgdClassifier

    layers: list[nn.Module] = []
    before, side = 1, 28
    for width in params.widths:
        layers += [Conv2d(before, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        before, side = width, side // 2  # [batch, width, side, side]
    net = nn.Sequential(
        *layers,
        nn.Flatten(),
        nn.Dropout(params.dropout),
        nn.Linear(before * side**2, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    return SgdClassifier(net, lr=params.lr, momentum=params.momentum, weight_decay=params.weight_decay)


def build_data(params: Params) -> FashionMnist:
    from trainables._shared.fashion_data import FashionMnist

    return FashionMnist(params.rows, params.batch_size)


def describe_data(params: Params) -> str:
    return fashion_mnist.describe(params.rows)
