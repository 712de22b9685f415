"""The networks and the rows of the benchmarks, of plain PyTorch: the floor must not pay for Lightning."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

Rows = tuple[torch.Tensor, torch.Tensor]
"""Inputs [rows, 64] and labels [rows]."""

BATCH_SIZE = 64
CUTS = {"cnn": (1_437, 1_797), "cnn_long": (1_437, 1_797), "mlp": (1_200, 1_500)}
"""Model to (end of the training rows, end of the validation rows)."""
PASSES = {"cnn_long": 10}
"""Model to how often an epoch has each training row: once where it is not named."""


def cnn() -> nn.Module:
    """Two convolutions and a hidden layer on 8x8 images: 56,064 parameters."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),  # [batch, 1, 8, 8]
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),  # [batch, 32, 4, 4]
        nn.Flatten(),
        nn.Linear(512, 98),
        nn.ReLU(),
        nn.Linear(98, 10),
    )


def mlp(hidden: int) -> nn.Module:
    """The network of trainables/digits_mlp.py (a test compares them)."""
    return nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))


def net(model: str, params: Mapping[str, Any]) -> nn.Module:
    return mlp(params["hidden"]) if model == "mlp" else cnn()


def digits() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """scikit-learn's digits: images [1797, 64] from 0 to 16, and labels [1797].

    Only its file is read: its import takes about a second of a core, which prepared data does not.
    """
    package = importlib.util.find_spec("sklearn")
    assert package is not None
    assert package.origin is not None
    table = np.loadtxt(Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    return table[:, :-1], table[:, -1]


@cache
def rows(model: str) -> tuple[Rows, Rows]:
    """Training and validation rows, split once with a fixed seed."""
    images, labels = digits()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    inputs = torch.from_numpy(images).float()[order] / 16
    targets = torch.from_numpy(labels).long()[order]
    train, val = CUTS[model]
    passes = PASSES.get(model, 1)
    trained = inputs[:train].repeat(passes, 1), targets[:train].repeat(passes)
    return trained, (inputs[train:val], targets[train:val])


def train(model: str, params: Mapping[str, Any], seed: int, go_on: Callable[[int, float], bool]) -> None:
    """A plain loop: train and validate epoch after epoch, until `go_on(epoch, accuracy)` says no."""
    for epoch, accuracy in enumerate(_epochs(model, params, seed), start=1):
        if not go_on(epoch, accuracy):
            return


def _epochs(model: str, params: Mapping[str, Any], seed: int) -> Iterator[float]:
    torch.manual_seed(seed)
    network = net(model, params)
    optimizer = torch.optim.SGD(
        network.parameters(),
        lr=params["lr"],
        momentum=params["momentum"],
        weight_decay=params.get("weight_decay", 0.0),
    )
    (inputs, labels), (val_inputs, val_labels) = rows(model)
    while True:
        network.train()
        for batch in torch.split(torch.randperm(len(labels)), BATCH_SIZE):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(inputs[batch]), labels[batch])
            torch.autograd.backward(loss)
            optimizer.step()
        network.eval()
        with torch.inference_mode():
            right = network(val_inputs).argmax(dim=1) == val_labels
        yield float(right.float().mean())
