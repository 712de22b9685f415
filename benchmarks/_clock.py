"""Tune's loop with a clock of its own: real searchers and schedulers; trials take the time they took.

It stands where they expect Tune's controller, and asks them what Tune asks, in Tune's order
(`TuneController.step` and `_process_trial_result` of Ray 2.60): a test lets Tune itself run the same
searches, and they are the same. So results come in the order that the real seconds give, on any machine,
and a search of 1,000 epochs takes seconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler
from ray.tune.search import Searcher

from benchmarks._problems import Curve, Epoch, Problem
from sweeps.training.report import REPORT, Report

Heard = Callable[[Trial, dict[str, Any]], None]


class Clock:
    """Replays trials in so many slots.

    Args:
        searcher: who proposes.
        scheduler: who prunes.
        problem: what trials score, and how long each epoch takes.
        slots: trials at a time.
        hears_result: told of each epoch, behind the scheduler and the searcher.
        hears_end: told of each trial that ends, with its last result.
    """

    def __init__(
        self,
        searcher: Searcher,
        scheduler: TrialScheduler,
        problem: Problem,
        slots: int,
        hears_result: Heard = lambda trial, result: None,
        hears_end: Heard = lambda trial, result: None,
    ) -> None:
        self.search_alg = SimpleNamespace(searcher=searcher)
        self._searcher = searcher
        self._scheduler: Any = scheduler  # it expects Tune's own controller
        self._problem, self._slots = problem, slots
        self._curves: dict[Trial, Curve] = {}
        self._hears_result, self._hears_end = hears_result, hears_end
        self._trials: list[Trial] = []
        self._live: set[Trial] = set()
        self._trained: dict[Trial, int] = {}
        self._last: dict[Trial, dict[str, Any]] = {}
        self._running: list[tuple[float, int, Trial]] = []
        self._events = 0
        self._has_more = True
        self.now = 0.0
        """Seconds since the search began."""

    def get_trials(self) -> list[Trial]:
        return self._trials

    def get_live_trials(self) -> set[Trial]:
        return self._live

    def stop_trial(self, trial: Trial) -> None:
        """End a trial that is paused."""
        self._scheduler.on_trial_remove(self, trial)
        self._searcher.on_trial_complete(trial.trial_id)
        self._end(trial)

    def run(self) -> Iterator[Epoch]:
        """Every epoch as it comes in."""
        while True:
            self._fill(self.now)
            if not self._running:
                return
            self.now, _, trial = heapq.heappop(self._running)
            yield self._result(trial, self.now)

    def _fill(self, now: float) -> None:
        """Ask the searcher, then the scheduler, until all slots are taken or nothing more happens."""
        before = None
        while len(self._running) < self._slots and before != (before := (len(self._trials), len(self._live))):
            self._propose()
            while len(self._running) < self._slots:
                trial = self._scheduler.choose_trial_to_run(self)
                if trial is None:
                    break
                before = None
                trial.set_status(Trial.RUNNING)
                self._train(trial, now)
                self._propose()

    def _propose(self) -> None:
        while self._has_more and sum(trial.status == Trial.PENDING for trial in self._live) < self._slots:
            trial_id = f"{len(self._trials):05d}"
            config: Any = self._searcher.suggest(trial_id)
            self._has_more = config != Searcher.FINISHED
            if config is None or not self._has_more:
                return
            trial = Trial("curve", config=config, trial_id=trial_id, stub=True)
            self._trials.append(trial)
            self._live.add(trial)
            self._trained[trial] = 0
            self._scheduler.on_trial_add(self, trial)

    def _train(self, trial: Trial, now: float) -> None:
        """The next epoch of a trial."""
        seconds = self._curve(trial).seconds[self._trained[trial]]
        self._events += 1
        heapq.heappush(self._running, (now + seconds, self._events, trial))

    def _result(self, trial: Trial, now: float) -> Epoch:
        curve = self._curve(trial)
        self._trained[trial] += 1
        epoch, score = self._trained[trial], curve.scores[self._trained[trial] - 1]
        is_last = epoch == len(curve.scores)
        result = {
            "trial_id": trial.trial_id, "training_iteration": epoch, "val_acc": score, "done": is_last,
            REPORT: Report(epoch, score, curve.others, 0.0),
        }  # fmt: skip
        decision = TrialScheduler.STOP
        if not is_last:
            decision = self._scheduler.on_trial_result(self, trial, result)
        if decision != TrialScheduler.STOP:
            self._searcher.on_trial_result(trial.trial_id, result)
        self._hears_result(trial, result)
        self._last[trial] = result
        if decision == TrialScheduler.CONTINUE:
            self._train(trial, now)
        elif decision == TrialScheduler.PAUSE:
            trial.set_status(Trial.PAUSED)
        else:
            self._scheduler.on_trial_complete(self, trial, result)
            self._searcher.on_trial_complete(trial.trial_id, result=result)
            self._end(trial)
        return Epoch(trial.trial_id, curve.point, epoch, score)

    def _end(self, trial: Trial) -> None:
        trial.set_status(Trial.TERMINATED)
        self._live.discard(trial)
        self._hears_end(trial, self._last[trial])

    def _curve(self, trial: Trial) -> Curve:
        if trial not in self._curves:
            self._curves[trial] = self._problem.curve(trial.config.get("params", trial.config))
        return self._curves[trial]
