"""The rungs of successive halving, and the promotion of a trial at one."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from sweeps.common.objective import Objective
from sweeps.config.sweep_config import SweepConfig


def rungs(config: SweepConfig) -> list[int]:
    """Epochs at which trials are judged: grace x factor^k below the end.

    Computed in whole numbers: Ray's truncated logarithm is one short for 243 / 3 or 1000 / 10.
    """
    found, epoch = [], config.grace_epochs
    while epoch < config.max_epochs:
        found.append(epoch)
        epoch *= config.reduction_factor
    return found


def is_promoted(score: float, others: Collection[float], reduction_factor: int, objective: Objective) -> bool:
    """Whether a trial continues after a rung: its score is in the best 1/factor there.

    The rule of Ray's AsyncHyperBandScheduler: not worse than the (1 - 1/factor) quantile of the
    trials that reached the rung before it; the first one always continues.
    """
    if not others:
        return True
    scores = np.fromiter(others, float, len(others))
    cutoff = np.percentile(objective.sign * scores, (1 - 1 / reduction_factor) * 100)
    return bool(objective.sign * score >= cutoff)
