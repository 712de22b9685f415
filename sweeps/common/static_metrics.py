"""What a trainable knows of a trial before it trains: `static_metrics(params) -> dict`, such as its size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sweeps.common.errors import CannotTrain
from sweeps.common.formatting import shortest

FUNCTION = "static_metrics"


def static_metrics(trainable: Any, params: Any) -> dict[str, float]:
    """Name to value; {} of a trainable that does not define the function.

    Args:
        trainable: its module.
        params: an instance of its Params.

    Raises:
        CannotTrain: what the function returns are not finite numbers by name.
    """
    if not hasattr(trainable, FUNCTION):
        return {}
    found = trainable.static_metrics(params)
    if not isinstance(found, Mapping):
        raise CannotTrain(f"{FUNCTION} must return a dict of numbers, such as {{'params_m': 1.2}}: {found!r}")
    for name, value in found.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not isinstance(name, str) or not is_number or not math.isfinite(value):
            raise CannotTrain(f"{FUNCTION}: {name} is {value!r}, and must be a finite number")
    return {name: shortest(float(value)) for name, value in found.items()}
