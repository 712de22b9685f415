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
        promoted = []
        for trial in live(tune_controller):
            if trial.status != Trial.PAUSED:
                continue
            number = trial.config["number"]
            last = max(self._record.trials[number].epochs, default=0)
            decision = "STOP" if self._record.is_to_stop(number) else self.decide(number, last)
            if decision == "CONTINUE":
                promoted.append((-last, number, trial))
            elif decision == "STOP":
                tune_controller.stop_trial(trial)
        to_continue = [trial for _, _, trial in promoted]
        if self.continues_first:
            return self._chosen(tune_controller, [trial for _, _, trial in sorted(promoted)], True)
        # Many of a bracket may be promoted at once. One at a time waits for a process: a trial that is still
        # paused for Tune can be stopped at once.
        is_next_there = any(map(self._waits_to_continue, live(tune_controller)))
        return self._chosen(tune_controller, [] if is_next_there else to_continue)

    def _waits_to_continue(self, trial: Trial) -> bool:
        return trial.status == Trial.PENDING and bool(self._record.trials[trial.config["number"]].epochs)
