"""The toy under another name and with another hyperparameter: a second model that competes with it."""

from __future__ import annotations

from dataclasses import dataclass

import lightning.pytorch as pl

from tests.faulty import toy

METRIC, MODE = "score", "max"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Hyperparameters of the toy."""

    speed: float = 1.0
    """Score gained per epoch."""
    epoch_s: float = 0.0
    """Seconds an epoch sleeps."""


def build_model(params: Params) -> toy.Toy:
    return toy.Toy(toy.Params(slope=params.speed, epoch_s=params.epoch_s))


def build_data(params: Params) -> pl.LightningDataModule:
    return toy.build_data(toy.Params())


def describe_data(params: Params) -> str:
    return "four rows of ones"
