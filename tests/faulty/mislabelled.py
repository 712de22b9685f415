"""Digits whose labels are out of range with the hyperparameter `shift`: on a GPU a kernel fails, and with it
all that its process computes there from then on."""

from __future__ import annotations

from dataclasses import dataclass

import lightning.pytorch as pl
import torch

from trainables import digits_mlp
from trainables._shared.classifier import SgdClassifier

METRIC, MODE = digits_mlp.METRIC, digits_mlp.MODE


@dataclass(frozen=True, kw_only=True)
class Params(digits_mlp.Params):
    """Hyperparameters of the MLP."""

    shift: int = 0
    """Added to each label from the second epoch on."""


class Mislabelled(SgdClassifier):
    """An MLP."""

    shift = 0

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        shift = self.shift if self.current_epoch else 0
        return super().training_step((batch[0], batch[1] + shift), index)


def build_model(params: Params) -> pl.LightningModule:
    net = digits_mlp.build_model(params).net
    model = Mislabelled(net, lr=params.lr, momentum=params.momentum, weight_decay=0.0)
    model.shift = params.shift
    return model


build_data = digits_mlp.build_data
