"""The rungs of successive halving, and the promotion of a trial at one."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from sweeps.common.objective import Losses
from sweeps.common.pareto import priorities
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


def is_promoted(losses: Losses, others: Collection[Losses], reduction_factor: int) -> bool:
    """Whether a trial continues after a rung: it is in the best 1/factor there.

    The rule of Ray's AsyncHyperBandScheduler: not worse than the (1 - 1/factor) quantile of the
    trials that reached the rung before it; the first one always continues. By several objectives, the places
    of all in their order are compared, as in Schmucker et al., 2021, https://arxiv.org/abs/2106.12639.
    """
    if not others:
        return True
    *before, own = priorities([*others, losses])
    return bool(own >= np.percentile(before, (1 - 1 / reduction_factor) * 100))
