"""The toy of `two_metrics`, whose size and speed are known before it trains; it logs neither."""

from __future__ import annotations

from tests.faulty import two_metrics
from tests.faulty.two_metrics import METRIC, MODE, SPACE, Params, build_data, build_model

__all__ = ["METRIC", "MODE", "SPACE", "Params", "build_data", "build_model", "static_metrics"]


def static_metrics(params: Params) -> dict[str, float]:
    if params.bad_epoch < 0:
        raise ZeroDivisionError("of a size")
    return {"params_m": two_metrics.size_m(params), "latency_ms": params.width}
