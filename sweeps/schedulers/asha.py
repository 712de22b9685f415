"""ASHA: asynchronous successive halving. Li et al., 2020, https://arxiv.org/abs/1810.05934

Decides as Ray's ASHAScheduler does (a test compares them), with two differences: a trial without a
finite score is never ranked (`nan < cutoff` is false, so Ray never stops it), and the scores at the rungs are
read from the record, so they survive the driver (Ray's do not, ray#30838).
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence

import numpy as np

from sweeps.common.objective import Losses
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.pareto import priorities
from sweeps.record.ranking import Arrival
from sweeps.search.record_scheduler import Decision, PruningMethod
from sweeps.search.rungs import Cohort, nothing_is_pruned, rungs, rungs_and_end


class Scheduler(PruningMethod):
    """Stops a trial at a rung unless it is among the best there so far."""

    TAKES_OBJECTIVES = True
    TAKES_MORE_EPOCHS = True

    @classmethod
    def describe(cls, config: SweepConfig) -> str:
        if not (judged := rungs(config)):
            return f"asha: {nothing_is_pruned(config)}"
        epochs = ", ".join(map(str, [*judged, config.max_epochs]))
        return (
            f"asha: rungs at epochs {epochs} (the end); a trial continues if it is among the best "
            f"1/{config.reduction_factor} of the trials that have reached the rung so far"
        )

    @classmethod
    def cohorts(cls, config: SweepConfig, planned_trials: Sequence[int]) -> list[Cohort]:
        """All trials, and how many may be expected to continue at each rung."""
        reach = _expected_to_reach(len(rungs(config)), config.reduction_factor, planned_trials[-1])
        return [Cohort(0, rungs_and_end(config), reach)]

    def decide(self, number: int, epoch: int, losses: Losses | None = None) -> Decision:
        if epoch not in rungs(self.config):
            return "CONTINUE"
        arrivals = list(self.record.arrivals_at(epoch))
        if number not in self.record.losses_at(epoch):
            if losses is None:
                return "CONTINUE"
            arrivals.append(Arrival(number, self.record.trials[number].attempt, math.inf, losses))
        for nth, own in enumerate(arrivals):
            if own.number == number:  # what an earlier attempt has passed, the next one passes
                before = [each.losses for each in arrivals[:nth] if each.number != number]
                if continues(own.losses, before, self.config.reduction_factor):
                    return "CONTINUE"
        return "STOP"


def continues(losses: Losses, before: Sequence[Losses], reduction_factor: int) -> bool:
    """Whether a trial continues at a rung.

    The rule of Ray's AsyncHyperBandScheduler: a trial continues if it is not worse than the (1 - 1/factor)
    quantile of those that came before it; the first one always does. By several objectives, or where one
    misses a constraint, the places of all in their order are compared, as in Schmucker et al., 2021,
    https://arxiv.org/abs/2106.12639.

    Args:
        before: of those that came before it, in their order.
        reduction_factor: about 1 in so many continues.
    """
    if not before:
        return True
    *came, own = priorities([*before, losses])
    return bool(own >= np.percentile(came, 100 * (1 - 1 / reduction_factor)))


@functools.cache  # a sweep that runs asks for it each second, and 1,000 trials take half of one
def _expected_to_reach(judged: int, reduction_factor: int, trials: int) -> tuple[float, ...]:
    """Trials that train to each of the rungs and to the end, by simulation with scores in random order."""
    generator = random.Random(0)
    simulated = min(trials, 1_000)
    repeats = max(1, min(20, 2_000 // max(1, simulated)))
    reach = [0] * (judged + 1)
    for _ in range(repeats):
        came: list[list[Losses]] = [[] for _ in range(judged)]
        for _ in range(simulated):
            losses = 0.0, generator.random()
            reach[0] += 1
            for rung, before in enumerate(came, start=1):
                goes_on = continues(losses, before, reduction_factor)
                before.append(losses)
                if not goes_on:
                    break
                reach[rung] += 1
    return tuple(count / repeats / max(1, simulated) * trials for count in reach)
