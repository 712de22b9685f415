"""ASHA: asynchronous successive halving. Li et al., 2020, https://arxiv.org/abs/1810.05934

Decides as Ray's ASHAScheduler does (a test compares them), with two differences: a trial without a
finite score is never ranked (`nan < cutoff` is false, so Ray lets it live), and the rungs are what
the record holds, so they survive the driver (Ray's do not, ray#30838).
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from sweeps.config import SweepConfig
from sweeps.record import Record
from sweeps.rungs import goes_on, rungs


def build(config: SweepConfig, record: Record) -> TrialScheduler:
    """ASHA over the rungs of the config, judging by the record."""
    return Asha(config, record)


def describe(config: SweepConfig) -> str:
    judged = rungs(config)
    if not judged:
        return f"asha: no rung before the end at {config.max_epochs} epochs, so nothing is pruned"
    epochs = ", ".join(map(str, [*judged, config.max_epochs]))
    return f"asha: judged at epochs {epochs} (the end); about 1/{config.reduction_factor} go on"


class Asha(FIFOScheduler):
    """Stops a trial at a rung unless it is among the best there so far."""

    def __init__(self, config: SweepConfig, record: Record) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._config = config
        self._record = record
        self._rungs = frozenset(rungs(config))

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """STOP or CONTINUE. Called before the record hears of the result."""
        epoch, score, number = result.get("epoch"), result.get("score"), trial.config["number"]
        if epoch not in self._rungs or score is None or not math.isfinite(score):
            return str(TrialScheduler.CONTINUE)
        at_rung = self._record.scores_at(epoch)
        # Trained again after a lost process: judged again by what was there the first time.
        score = at_rung.get(number, score)
        before = [at_rung[other] for other in itertools.takewhile(lambda other: other != number, at_rung)]
        stays = goes_on(score, before, self._config.reduction_factor, self._record.mode)
        return str(TrialScheduler.CONTINUE if stays else TrialScheduler.STOP)
