"""A function that trains nothing: its score is how long its last report has kept it waiting."""

from __future__ import annotations

import time
from typing import Any

from ray import tune

METRIC, MODE = "waited_ms", "min"
SPACE = {"unused": tune.uniform(0, 1)}
EVERY_S = 0.1


def train(params: Any, trial: Any) -> None:
    waited_ms = 0.0
    for _ in trial.epochs:
        time.sleep(EVERY_S)
        began = time.perf_counter()
        trial.report({"waited_ms": waited_ms})
        waited_ms = 1000 * (time.perf_counter() - began)
