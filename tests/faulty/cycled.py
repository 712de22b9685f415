"""The toy with a learning rate that is scheduled for the whole run, and ends with it."""

from __future__ import annotations

from typing import Any

import torch

from tests.faulty import toy

METRIC, MODE, Params = toy.METRIC, toy.MODE, toy.Params
build_data = toy.build_data


class Cycled(toy.Toy):
    """The toy with the schedule."""

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def build_model(params: toy.Params) -> Cycled:
    return Cycled(params)
