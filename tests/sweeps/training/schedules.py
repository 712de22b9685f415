"""Learning rate schedules that the tests of a resume share."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import torch


def lowered_on_plateau(model: pl.LightningModule) -> Any:
    """Lowers the learning rate as soon as val_loss does not fall by half: it steps in almost every epoch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.3, patience=0, threshold=0.5)
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": "val_loss"}}
