"""ASHA: asynchronous successive halving. Li et al., 2020, https://arxiv.org/abs/1810.05934

Decides as Ray's ASHAScheduler does (a test compares them), with two differences: a trial without a
finite score is never ranked (`nan < cutoff` is false, so Ray never stops it), and the scores at the rungs are
read from the record, so they survive the driver (Ray's do not, ray#30838).
"""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections.abc import Sequence

from ray.tune.schedulers import TrialScheduler

from sweeps.common.formatting import count
from sweeps.common.objective import Losses
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.search.cohorts import Cohort
from sweeps.search.fifo_scheduler import FifoScheduler
from sweeps.search.rungs import Arrivals, rungs

TAKES_OBJECTIVES = True


def build(config: SweepConfig, record: Record) -> TrialScheduler:
    """ASHA over the rungs of the config, judging by the record."""
    return Asha(config, record)


def describe(config: SweepConfig) -> str:
    judged = rungs(config)
    if not judged:
        return f"asha: no rung before the end at {count(config.max_epochs, 'epoch')}, so nothing is pruned"
    epochs = ", ".join(map(str, [*judged, config.max_epochs]))
    return (
        f"asha: rungs at epochs {epochs} (the end); a trial continues if it is among the best "
        f"1/{config.reduction_factor} of the trials that have reached the rung so far"
    )


def ends_at(config: SweepConfig, record: Record, number: int, epoch: int) -> bool:
    """Whether a trial was stopped at this epoch, the last that it reported."""
    at_rung = record.losses_at(epoch)
    if epoch not in rungs(config) or number not in at_rung:
        return False
    before = (at_rung[other] for other in itertools.takewhile(lambda other: other != number, at_rung))
    return not Arrivals(config.reduction_factor, before).promotes(at_rung[number])


def cohorts(config: SweepConfig, planned_trials: Sequence[int]) -> list[Cohort]:
    """All trials, and how many may be expected to continue at each rung."""
    ends, trials = (*rungs(config), config.max_epochs), planned_trials[-1]
    return [Cohort(0, ends, tuple(_reach(config, trials)))]


def _reach(config: SweepConfig, trials: int) -> list[float]:
    """Trials that train to each rung and to the end, by simulation with scores in random order."""
    generator, judged = random.Random(0), rungs(config)
    simulated = min(trials, 10_000)
    repeats = max(1, min(20, 2_000 // max(1, simulated)))
    reach = [0] * (len(judged) + 1)
    for _ in range(repeats):
        seen: list[list[float]] = [[] for _ in judged]
        for _ in range(simulated):
            score = generator.random()
            reach[0] += 1
            for rung, there in enumerate(seen, start=1):
                cutoff = _quantile(there, 1 - 1 / config.reduction_factor)
                bisect.insort(there, score)
                if score < cutoff:
                    break
                reach[rung] += 1
    return [count / repeats / max(1, simulated) * trials for count in reach]


def _quantile(in_order: list[float], share: float) -> float:
    """The quantile of `Arrivals`, fast, of sorted scores."""
    if not in_order:
        return -math.inf
    below, part = divmod((len(in_order) - 1) * share, 1)
    low, high = in_order[int(below)], in_order[min(int(below) + 1, len(in_order) - 1)]
    return low + part * (high - low)


class Asha(FifoScheduler):
    """Stops a trial at a rung unless it is among the best there so far."""

    def __init__(self, config: SweepConfig, record: Record) -> None:
        super().__init__(config, record)
        self._came = {epoch: Arrivals(config.reduction_factor) for epoch in rungs(config)}
        """By the epoch of a rung."""

    def judge(self, number: int, epoch: int, losses: Losses) -> str:
        return str(TrialScheduler.CONTINUE if self._continues(number, epoch, losses) else TrialScheduler.STOP)

    def _continues(self, number: int, epoch: int, losses: Losses) -> bool:
        if (came := self._came.get(epoch)) is None:
            return True
        if number in self._record.scores_at(epoch):  # trained again after a lost process: judged as before
            return not ends_at(self._config, self._record, number, epoch)
        for _, each in self._record.losses_since(epoch, len(came)):
            came.add(each)
        return came.promotes(losses)
