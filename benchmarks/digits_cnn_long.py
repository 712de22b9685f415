"""The CNN of benchmarks.digits_cnn with each row ten times an epoch: 225 steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.digits_cnn import METRIC, MODE, Params, build_model

if TYPE_CHECKING:
    from benchmarks._digits import Digits

__all__ = ["METRIC", "MODE", "Params", "build_data", "build_model"]


def build_data(params: Params) -> Digits:
    from benchmarks._digits import Digits

    return Digits("cnn_long")
