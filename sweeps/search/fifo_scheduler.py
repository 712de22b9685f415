"""The base of the schedulers: new trials run in the order of their numbers, and finite scores are judged."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from sweeps.common.objective import Losses
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.training.report import REPORT, Report

LONG_START_S = 60.0
"""A process that has not started by then may never do: the next one that becomes free is for its trial, as
often as for new ones."""


class FifoScheduler(FIFOScheduler):
    """Tune's first-in, first-out scheduler. It looks only at trials that have not ended: Tune's own looks at
    all trials in each turn of its loop, which takes most of its time with 10,000."""

    def __init__(
        self, config: SweepConfig, record: Record, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._config = config
        self._record = record
        self._clock = clock
        self._starting: dict[str, float] = {}
        """Tune's ids of the pending trials that were chosen, and when: Tune starts a process for each that
        did not get a free one."""
        self._has_turn = False
        """Whether one that has waited for long had its turn just now."""

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """STOP, PAUSE or CONTINUE. Tune calls it before the record has the result."""
        report: Report | None = result.get(REPORT)
        if report is None:
            return str(TrialScheduler.CONTINUE)
        losses = self._record.objectives.losses(report.score, report.metrics)
        if not all(map(math.isfinite, losses[1:])):
            return str(TrialScheduler.CONTINUE)
        return self.judge(trial.config["number"], report.epoch, losses)

    def judge(self, number: int, epoch: int, losses: Losses) -> str:
        """The decision for a trial with these finite losses at this epoch."""
        return str(TrialScheduler.CONTINUE)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """The oldest trial for which no process starts yet; else the one whose process came last to start.

        Tune gives a process that is free to the trial that is chosen, and ends the one that starts for it.
        Where a trial is shorter than a start, each process but one would be ended so, for ever.
        """
        return self._chosen([trial for trial in live(tune_controller) if trial.status == Trial.PENDING])

    def _chosen(self, in_turn: Sequence[Trial]) -> Trial | None:
        """One of all pending trials, and of paused ones that are to continue."""
        if self._record.is_held:
            return None
        by_id = {trial.trial_id: trial for trial in in_turn}
        self._starting = {known: since for known, since in self._starting.items() if known in by_id}
        if self._is_overdue():
            return by_id[next(iter(self._starting))]
        chosen = next((trial for trial in in_turn if trial.trial_id not in self._starting), None)
        if chosen is None:
            return by_id[next(reversed(self._starting))] if self._starting else None
        self._starting[chosen.trial_id] = self._clock()
        return chosen

    def _is_overdue(self) -> bool:
        """Whether it is the turn of the trial that was chosen first: there may be no room for its process."""
        since = next(iter(self._starting.values()), math.inf)
        self._has_turn = self._clock() - since > LONG_START_S and not self._has_turn
        return self._has_turn


def live(tune_controller: Any) -> list[Trial]:
    """Trials that have not ended, the oldest first."""
    return sorted(tune_controller.get_live_trials(), key=lambda trial: int(trial.config["number"]))
