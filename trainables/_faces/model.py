"""A small network of depthwise separable convolutions that tells blended faces from real ones.

Howard et al., 2017 (MobileNet), https://arxiv.org/abs/1704.04861: at a width of 16 channels it is that
network at half its width, 0.8 million weights.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from trainables._shared.epoch_mean import MeanLogger
from trainables._shared.optim import adamw

LAYERS = ((2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), *[(16, 1)] * 5, (32, 2), (32, 1))
"""Of each block its channels, by those of the first convolution, and its stride."""


class FaceNet(MeanLogger):
    """Trained by AdamW on binary cross-entropy.

    Logs train_loss, val_loss and val_acc (share of right answers; as many are real as are blended) each
    epoch, test_acc when tested.
    """

    def __init__(self, width: int, *, lr: float, weight_decay: float) -> None:
        super().__init__()
        self._lr, self._weight_decay = lr, weight_decay
        blocks: list[nn.Module] = [_normed(nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False))]
        before = width
        for channels, stride in LAYERS:
            blocks.append(_separable(before, before := channels * width, stride))
        self.net = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images [batch, pixels, pixels, 3] uint8 to logits [batch]: above 0 is blended."""
        # As stored, an image is already what PyTorch calls channels_last, and so is all that is made of it (a
        # fifth faster on a CPU); the weights stay as they are: DeepSpeed can't broadcast such (0.19).
        inputs = images.permute(0, 3, 1, 2).to(next(self.parameters()).dtype).div(127.5).sub(1)
        logits: torch.Tensor = self.net(inputs)
        return logits.squeeze(1)

    def training_step(self, batch: dict[str, torch.Tensor], index: int) -> torch.Tensor:
        loss = functional.binary_cross_entropy_with_logits(self(batch["images"]), batch["labels"])
        self.log_mean("train_loss", loss, len(batch["labels"]))
        return loss

    def validation_step(self, batch: dict[str, torch.Tensor], index: int) -> None:
        logits, labels = self(batch["images"]), batch["labels"]
        loss = functional.binary_cross_entropy_with_logits(logits, labels)
        self.log_mean("val_loss", loss, len(labels))
        self.log_mean("val_acc", _accuracy(logits, labels), len(labels))

    def test_step(self, batch: dict[str, torch.Tensor], index: int) -> None:
        labels = batch["labels"]
        self.log_mean("test_acc", _accuracy(self(batch["images"]), labels), len(labels))

    def configure_optimizers(self) -> Any:
        group = {"params": list(self.parameters()), "weight_decay": self._weight_decay}
        return adamw(self, [group], self._lr)


def _accuracy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return ((logits > 0) == (labels > 0.5)).float().mean()


def _separable(before: int, after: int, stride: int) -> nn.Sequential:
    """Each channel by itself in space, then all channels at each place."""
    in_space = nn.Conv2d(before, before, 3, stride=stride, padding=1, groups=before, bias=False)
    return nn.Sequential(_normed(in_space), _normed(nn.Conv2d(before, after, 1, bias=False)))


def _normed(convolution: nn.Conv2d) -> nn.Sequential:
    return nn.Sequential(convolution, nn.BatchNorm2d(convolution.out_channels), nn.ReLU(inplace=True))
