"""What the classifiers here share: loss, accuracy, and SGD where it is used."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import torch
from torch import nn
from torch.nn import functional


class Classifier(pl.LightningModule):
    """A network trained on cross-entropy; a subclass says by which optimizer.

    Logs train_loss, val_loss and val_acc (share of right answers) each epoch, test_acc when tested. It
    sums them itself and logs the means when the epoch ends: `self.log` in a step costs half a millisecond.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self._means: dict[str, _Mean] = {}

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Inputs [batch, ...] to logits [batch, classes]."""
        logits: torch.Tensor = self.net(inputs)
        return logits

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        inputs, labels = batch
        loss = functional.cross_entropy(self(inputs), labels)
        self._add("train_loss", loss, len(labels))
        return loss

    def on_train_epoch_end(self) -> None:
        self._log_means("train_")

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> None:
        inputs, labels = batch
        logits = self(inputs)
        self._add("val_loss", functional.cross_entropy(logits, labels), len(labels))
        self._add("val_acc", _accuracy(logits, labels), len(labels))

    def on_validation_epoch_end(self) -> None:
        self._log_means("val_")

    def test_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> None:
        inputs, labels = batch
        self._add("test_acc", _accuracy(self(inputs), labels), len(labels))

    def on_test_epoch_end(self) -> None:
        self._log_means("test_")

    def _add(self, name: str, value: torch.Tensor, rows: int) -> None:
        self._means.setdefault(name, _Mean()).add(value, rows)

    def _log_means(self, part: str) -> None:
        for name in [name for name in self._means if name.startswith(part)]:
            self.log(name, self._means.pop(name).value)


class _Mean:
    """Of a value over the rows of an epoch, summed on the device where it is: no step waits for it."""

    def __init__(self) -> None:
        self._sum: torch.Tensor | float = 0.0
        self._rows = 0

    def add(self, value: torch.Tensor, rows: int) -> None:
        """Take in the mean of a batch."""
        self._sum = self._sum + value.detach() * rows
        self._rows += rows

    @property
    def value(self) -> torch.Tensor | float:
        """The mean of all that was added."""
        return self._sum / self._rows


class SgdClassifier(Classifier):
    """Trained by SGD with momentum."""

    def __init__(self, net: nn.Module, *, lr: float, momentum: float, weight_decay: float) -> None:
        super().__init__(net)
        self._sgd: dict[str, Any] = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), **self._sgd)


def _accuracy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (logits.argmax(dim=1) == labels).float().mean()
