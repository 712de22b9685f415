"""The base of the schedulers that pause trials at a rung, to decide later which of them continue."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from ray.tune.experiment import Trial

from sweeps.common.objective import Losses
from sweeps.search.fifo_scheduler import FifoScheduler, live


class PausingScheduler(FifoScheduler):
    """Asks `decide` again about each paused trial."""

    continues_first: ClassVar[bool] = False
    """Whether trials that continue come before new ones, and the furthest of them first."""

    @abstractmethod
    def decide(self, number: int, epoch: int, losses: Losses | None = None) -> str:
        """CONTINUE, PAUSE or STOP of a trial with this last epoch; `losses` when the record lacks it."""

    def judge(self, number: int, epoch: int, losses: Losses) -> str:
        return self.decide(number, epoch, losses)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """A new trial or one that continues. Also ends the trials that are not to continue, since Tune calls
        it in each turn of its loop."""
        trials, promoted = live(tune_controller), []
        for trial in trials:
            if trial.status != Trial.PAUSED:
                continue
            number = trial.config["number"]
            decision = "STOP" if self._record.is_to_stop(number) else self.decide(number, self._last(trial))
            if decision == "CONTINUE":
                promoted.append(trial)
            elif decision == "STOP":
                tune_controller.stop_trial(trial)
        pending = [trial for trial in trials if trial.status == Trial.PENDING]
        if self.continues_first:
            return self._chosen([*sorted(promoted, key=self._last, reverse=True), *pending])
        # Many of a bracket may be promoted at once. One at a time waits for a process: a trial that is still
        # paused for Tune can be stopped at once.
        return self._chosen([*pending, *([] if any(map(self._last, pending)) else promoted)])

    def _last(self, trial: Trial) -> int:
        """The last epoch of a trial, 0 before the first."""
        return max(self._record.trials[trial.config["number"]].epochs, default=0)
