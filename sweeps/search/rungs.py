"""The rungs of successive halving, and the promotion of a trial at one."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np

from sweeps.common.objective import Losses
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.best_first import BestFirst


def rungs(config: SweepConfig) -> list[int]:
    """Epochs at which trials are judged: grace x factor^k below the end.

    Computed in whole numbers: Ray's truncated logarithm is one short for 243 / 3 or 1000 / 10.
    """
    found, epoch = [], config.grace_epochs
    while epoch < config.max_epochs:
        found.append(epoch)
        epoch *= config.reduction_factor
    return found


class Arrivals:
    """The trials that have come to a rung, by which the next one is judged.

    The rule of Ray's AsyncHyperBandScheduler: a trial continues if it is not worse than the (1 - 1/factor)
    quantile of those that came before it; the first one always does. By several objectives, or where one
    misses a constraint, the places of all in their order are compared, as in Schmucker et al., 2021,
    https://arxiv.org/abs/2106.12639.

    Args:
        reduction_factor: about 1 in so many continues.
        losses: of the trials that have come, in their order.
    """

    def __init__(self, reduction_factor: int, losses: Iterable[Losses] = ()) -> None:
        self._share = 1 - 1 / reduction_factor
        self._values = array("d")
        """By the first objective, larger is better."""
        self._order = BestFirst()
        self._any_missed = False
        for each in losses:
            self.add(each)

    def __len__(self) -> int:
        return len(self._values)

    def add(self, losses: Losses) -> None:
        """Add the next trial that has come."""
        self._order.add(len(self._values), losses)
        self._values.append(-losses[1])
        self._any_missed = self._any_missed or losses[0] > 0

    def promotes(self, losses: Losses) -> bool:
        """Whether a trial with these losses, if it came now, would continue."""
        if not (came := len(self._values)):
            return True
        if len(losses) == 2 and not losses[0] and not self._any_missed:
            return bool(-losses[1] >= np.percentile(np.frombuffer(self._values), 100 * self._share))
        worse = came - self._order.place(came, losses)
        return worse - 0.5 >= (came - 1) * self._share  # the quantile of their places, all but its own
