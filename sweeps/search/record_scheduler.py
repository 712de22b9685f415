"""How trials are pruned: what each scheduler defines, and the part of it that Tune asks."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Self

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from sweeps.common.objective import Losses
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.search.rungs import Cohort
from sweeps.training.report import REPORT, Report

Decision = Literal["CONTINUE", "PAUSE", "STOP"]
"""As in `ray.tune.schedulers.TrialScheduler`."""
LONG_START_S = 60.0
"""A process that has not started by then may never do: the next one that becomes free is for its trial, as
often as for new ones."""


class PruningMethod(ABC):
    """Judges trials by the record alone: whatever it keeps, for speed, is found in the record again.

    Args:
        config: max_epochs, grace_epochs and reduction_factor.
    """

    TAKES_OBJECTIVES: ClassVar[bool] = False
    """Whether it takes several objectives: it orders trials by `record.losses_at`."""
    PAUSES: ClassVar[bool] = False
    """Whether it pauses trials, which leave their slots to others."""
    TAKES_MORE_EPOCHS: ClassVar[bool] = False
    """Whether its decisions stay as they are where `max_epochs` is raised, so that trials can go on."""
    CONTINUES_FIRST: ClassVar[bool] = False
    """Whether paused trials that continue come before new ones, and the furthest of them first."""

    def __init__(self, config: SweepConfig, record: Record) -> None:
        self.config, self.record = config, record

    @abstractmethod
    def decide(self, number: int, epoch: int, losses: Losses | None = None) -> Decision:
        """Whether a trial continues, pauses or stops after an epoch.

        Args:
            losses: of this epoch, when the record does not have it yet.
        """

    def decided_rungs(self, number: int) -> list[int]:
        """Rungs at which it has decided for all that a trial is compared with, once and for all."""
        return []

    @classmethod
    @abstractmethod
    def describe(cls, config: SweepConfig) -> str:
        """One line for the plan."""

    @classmethod
    def cohorts(cls, config: SweepConfig, planned_trials: Sequence[int]) -> list[Cohort]:
        """Which trials are ranked against each other, and how many of them train how far.

        Args:
            planned_trials: number of trials in each run of the sweep, increasing.
        """
        return [Cohort(0, (config.max_epochs,), (planned_trials[-1],))]

    @classmethod
    def most_waiting(cls, config: SweepConfig, running: int) -> int:
        """Trials that are paused at a time, at most, with so many that train at a time."""
        return (config.num_trials or 0) if cls.PAUSES else 0

    @classmethod
    def expected_epochs(cls, config: SweepConfig) -> int:
        """Epochs that all trials of a new sweep train when none fails."""
        cohorts = cls.cohorts(config, [config.num_trials]) if config.num_trials else []
        return round(
            sum(n * span for each in cohorts for n, span in zip(each.reach, each.spans, strict=True))
        )

    @classmethod
    def for_record(cls, config: SweepConfig, record: Record) -> Self:
        """The only one of a record: all ask the same."""
        key = cls, config.max_epochs, config.grace_epochs, config.reduction_factor
        if key not in record.pruning:
            record.pruning[key] = cls(config, record)
        found: Self = record.pruning[key]
        return found

    @classmethod
    def build(cls, config: SweepConfig, record: Record) -> RecordScheduler:
        """The scheduler for Tune."""
        return RecordScheduler(cls.for_record(config, record))

    @classmethod
    def ends_at(cls, config: SweepConfig, record: Record, number: int, epoch: int) -> bool:
        """Whether a trial was stopped at this epoch, the last that it reported."""
        return cls.for_record(config, record).decide(number, epoch) == "STOP"

    @classmethod
    def waits_at(cls, config: SweepConfig, record: Record, number: int, epoch: int) -> bool:
        """Whether a trial is paused at this epoch, the last that it reported."""
        return cls.PAUSES and cls.for_record(config, record).decide(number, epoch) == "PAUSE"


class RecordScheduler(FIFOScheduler):
    """Tune's first-in, first-out scheduler that prunes by a method.

    It looks only at trials that have not ended: Tune's own looks at all trials in each turn of its loop,
    which takes most of its time with 10,000.
    """

    slots: Callable[[], float] = staticmethod(lambda: math.inf)
    """Trials that may run at a time. The searcher keeps to them with those that it proposes; here those do
    that were paused."""
    to_give_up: Callable[[Sequence[Trial]], Sequence[Trial]] = staticmethod(lambda pending: ())
    """Of the trials that have no process yet, those that are to wait for no place any more."""

    def __init__(self, method: PruningMethod, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._method, self._record, self._clock = method, method.record, clock
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
        return self._method.decide(trial.config["number"], report.epoch, losses)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """The next trial that has no process, or that continues. Also ends the paused trials that are not to
        continue, since Tune calls it in each turn of its loop."""
        trials, promoted = live(tune_controller), []
        for trial in trials:
            if trial.status != Trial.PAUSED:
                continue
            number = trial.config["number"]
            is_to_stop = self._record.is_to_stop(number)
            decision = "STOP" if is_to_stop else self._method.decide(number, self._last(trial))
            if decision == "CONTINUE":
                promoted.append(trial)
            elif decision == "STOP":
                tune_controller.stop_trial(trial)
        pending = [trial for trial in trials if trial.status == Trial.PENDING]
        for trial in self.to_give_up(pending):
            pending.remove(trial)
            tune_controller.stop_trial(trial)
        if not self._method.PAUSES:
            return self._chosen(pending)
        if sum(trial.status in (Trial.PENDING, Trial.RUNNING) for trial in trials) >= self.slots():
            promoted = []
        if self._method.CONTINUES_FIRST:
            return self._chosen([*sorted(promoted, key=self._last, reverse=True), *pending])
        # Many of a bracket may be promoted at once. One at a time waits for a process: a trial that is still
        # paused for Tune can be stopped at once.
        return self._chosen([*pending, *([] if any(map(self._last, pending)) else promoted)])

    def _last(self, trial: Trial) -> int:
        """The last epoch of a trial, 0 before the first."""
        return max(self._record.trials[trial.config["number"]].epochs, default=0)

    def _chosen(self, in_turn: Sequence[Trial]) -> Trial | None:
        """The first for which no process starts yet; else the one whose process came last to start.

        Tune gives a process that is free to the trial that is chosen, and ends the one that starts for it.
        Where a trial is shorter than a start, each process but one would be ended so, for ever.
        """
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
