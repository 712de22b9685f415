"""The toy, on a PC that can't train it: beside it, for a user's project gets the toy, without our code."""

from __future__ import annotations

from pathlib import Path

import lightning.pytorch as pl

from sweeps.common.errors import PCUnfit
from tests.faulty.toy import METRIC, MODE, Params, build_model
from tests.faulty.toy import build_data as build_toys_data

__all__ = ["METRIC", "MODE", "Params", "build_data", "build_model"]

UNFIT = Path("/tmp/unfit")
"""On a PC of a lab: nothing can be trained there."""


def build_data(params: Params) -> pl.LightningDataModule:
    if params.fault == "unfit" or UNFIT.exists():
        raise PCUnfit("the disk of /prepared is full")
    return build_toys_data(params)
