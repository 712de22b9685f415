"""A function whose large rates fail in their fifth epoch as long as the file $AWAY_UNTIL is not there."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from ray import tune

METRIC, MODE = "val_score", "max"
SPACE = {"rate": tune.uniform(0.0, 1.0)}


def train(params: Any, trial: Any) -> None:
    for epoch in trial.epochs:
        time.sleep(float(os.environ.get("EPOCH_S", "0")))
        if epoch > 4 and params.rate > 0.6 and not Path(os.environ["AWAY_UNTIL"]).exists():
            raise OSError("the data was away")
        trial.report({"val_score": params.rate * epoch}, save=lambda folder: (folder / "state").touch())
