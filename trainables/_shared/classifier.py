"""Loss and accuracy of the classifiers here, and SGD."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from trainables._shared.epoch_mean import MeanLogger


class Classifier(MeanLogger):
    """A network trained on cross-entropy; a subclass says by which optimizer.

    Logs train_loss, val_loss and val_acc (share of correct answers) each epoch, test_acc when tested.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Inputs [batch, ...], numbers or bytes that stand for 0 to 1, to logits [batch, classes]."""
        if inputs.dtype == torch.uint8:  # on the device: a fourth of what would be moved there
            inputs = inputs.to(next(self.parameters()).dtype).div(255)
        logits: torch.Tensor = self.net(inputs)
        return logits

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        inputs, labels = batch
        loss = functional.cross_entropy(self(inputs), labels)
        self.log_mean("train_loss", loss, len(labels))
        return loss

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> None:
        inputs, labels = batch
        logits = self(inputs)
        self.log_mean("val_loss", functional.cross_entropy(logits, labels), len(labels))
        self.log_mean("val_acc", _accuracy(logits, labels), len(labels))

    def test_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> None:
        inputs, labels = batch
        self.log_mean("test_acc", _accuracy(self(inputs), labels), len(labels))


class SgdClassifier(Classifier):
    """Trained by SGD with momentum."""

    def __init__(self, net: nn.Module, *, lr: float, momentum: float, weight_decay: float) -> None:
        super().__init__(net)
        self._sgd: dict[str, Any] = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}

    def configure_optimizers(self) -> Any:
        # Not fused, though at 16-mixed the scaler then waits for the GPU in each step: when an overflow skips
        # the first step, as it often does, a fused SGD goes on from momentum that nothing has written yet
        # (`torch.empty_like` in `_fused_sgd` of torch/optim/sgd.py, PyTorch 2.13).
        return torch.optim.SGD(self.parameters(), **self._sgd)


def _accuracy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (logits.argmax(dim=1) == labels).float().mean()
