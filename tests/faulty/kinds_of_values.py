"""A trainable whose hyperparameters have values of all kinds, and a space of them."""

import itertools
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from ray import tune
from torch.utils.data import TensorDataset

METRIC, MODE = "val_acc", "max"


class Activation(Enum):
    relu = torch.nn.ReLU
    gelu = torch.nn.GELU


@dataclass(frozen=True, kw_only=True)
class Params:
    width: int = 1
    clip: float | None = 1.0
    layers: tuple[int, ...] = (8,)
    kernels: list[int] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    activation: Activation = Activation.relu
    data: Path = Path("data")
    name: str | None = None
    rates: list[float] = field(default_factory=lambda: [0.1, 0.2])
    dtype: torch.dtype = torch.float32
    batch_size: int | None = None

    def __post_init__(self) -> None:
        if self.batch_size is None:
            object.__setattr__(self, "batch_size", 8 * self.width)


SPACE = {
    "width": tune.choice(list(np.arange(1, 4))),
    "clip": tune.choice([None, 0.5, np.float64(1.0)]),
    "layers": tune.choice([(4,), (8, 8)]),
    "kernels": tune.choice([[1, 2], [3]]),
    "options": tune.choice([{"a": 1}, {"a": 2, "b": None}]),
    "activation": tune.choice(list(Activation)),
    "data": tune.choice([Path("a"), Path("b/c")]),
    "name": tune.choice([None, "[1]", "08"]),
}


class Net(pl.LightningModule):
    """Fails where a value is not of the type of its field."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        check(params)
        sizes = [2, *params.layers, 1]
        pairs = itertools.pairwise(sizes)
        self.net = torch.nn.Sequential(*(torch.nn.Linear(*pair, dtype=params.dtype) for pair in pairs))

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        return self.net(batch[0]).square().mean()  # type: ignore[no-any-return]

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        self.log("val_acc", -self.net(batch[0]).square().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.01)


def check(params: Params) -> None:
    """Raise a TypeError where a value is not of the type of its field."""
    assert params.batch_size == 8 * params.width
    wanted = {"width": int, "layers": tuple, "kernels": list, "options": dict, "activation": Activation}
    wanted |= {"clip": (float, type(None)), "data": Path, "name": (str, type(None)), "rates": list}
    for name, kind in wanted.items():
        if not isinstance(value := getattr(params, name), kind):
            raise TypeError(f"{name} is {value!r}")


def build_data(params: Params) -> pl.LightningDataModule:
    rows = TensorDataset(torch.ones(32, 2))
    return pl.LightningDataModule.from_datasets(rows, rows, batch_size=params.batch_size or 1)


build_model = Net
