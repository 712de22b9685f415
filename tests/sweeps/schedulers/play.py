"""Tune's loop without Ray's processes, for schedulers that pause trials."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ray.tune.experiment import Trial

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.schedulers.halving import Scheduler as Halving
from sweeps.training.report import REPORT, Report
from tests.conftest import propose

Mode = Literal["min", "max"]

SIZE = "size_m"
"""A metric that is the same in all epochs of a trial."""


@dataclass(eq=False)
class FakeTrial:
    """As much of Tune's Trial as a scheduler looks at."""

    number: int
    status: str = Trial.PENDING
    epoch: int = 0
    is_saving: bool = False

    @property
    def trial_id(self) -> str:
        return f"trial_{self.number:04d}"

    @property
    def config(self) -> dict[str, Any]:
        return {"number": self.number}


@dataclass
class Play:
    """Tune's loop without processes: who runs is asked of the scheduler, who reports is drawn."""

    config: SweepConfig
    scheduler: Any
    record: Record | None
    seed: str
    slots: int = 3
    fails: dict[int, int] = field(default_factory=dict)
    """Trial number to the epoch after which it fails."""
    trials: list[FakeTrial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.search_alg = self.searcher = self  # Ray's scheduler speaks to the searcher through these
        self.max_running = 0

    # What a scheduler may call.
    def on_pause(self, trial_id: str) -> None: ...

    def on_unpause(self, trial_id: str) -> None: ...

    def get_trials(self) -> list[FakeTrial]:
        return self.trials

    def get_live_trials(self) -> list[FakeTrial]:
        return [trial for trial in self.trials if trial.status != Trial.TERMINATED]

    def stop_trial(self, trial: FakeTrial) -> None:
        assert trial.status == Trial.PAUSED
        self._end(trial, "pruned")
        self.scheduler.on_trial_remove(self, trial)

    def run(self, steps: float = float("inf")) -> dict[int, int]:
        """Trial number to the last epoch that it trained, after all have ended or so many steps."""
        while steps > 0 and (self._start() or self._running()):
            steps -= 1
            self._report(self.random.choice(self._running()))
        return {trial.number: trial.epoch for trial in self.trials}

    def _running(self) -> list[FakeTrial]:
        return [trial for trial in self.trials if trial.status == Trial.RUNNING]

    def _start(self) -> bool:
        """Fill the slots, as Tune does: a new trial is there before the scheduler chooses."""
        while len(self._running()) < self.slots:
            if not any(trial.status == Trial.PENDING for trial in self.trials):
                self._add()
            if (chosen := self.scheduler.choose_trial_to_run(self)) is None:
                break
            assert chosen.status in (Trial.PENDING, Trial.PAUSED)
            chosen.status = Trial.RUNNING
        self.max_running = max(self.max_running, len(self._running()))
        return bool(self._running())

    def _add(self) -> None:
        number = len(self.trials)
        if number < (self.config.num_trials or 0):
            self.trials.append(FakeTrial(number))
            if self.record is not None and number == len(self.record.trials):
                propose(self.record, {})
            self.scheduler.on_trial_add(self, self.trials[-1])

    def _report(self, trial: FakeTrial) -> None:
        if trial.epoch == self.fails.get(trial.number):
            self._end(trial, "failed")
            self.scheduler.on_trial_error(self, trial)
            return
        trial.epoch += 1
        score = score_of(trial.number, trial.epoch)
        metrics = {SIZE: score_of(trial.number, 0)}
        result = {
            REPORT: Report(trial.epoch, score, metrics, 1.0),
            "epoch": trial.epoch,  # Ray's own schedulers look at these
            "score": score,
            "training_iteration": trial.epoch,
        }
        decision = self.scheduler.on_trial_result(self, trial, result)
        if self.record is not None:
            self.record.report(trial.number, trial.epoch, score, metrics, 1.0)
        if trial.epoch == self.config.max_epochs:
            self._end(trial, "finished")
            self.scheduler.on_trial_complete(self, trial, result)
        elif decision == "STOP":
            self._end(trial, "pruned")
            self.scheduler.on_trial_complete(self, trial, result)
        elif decision == "PAUSE":
            trial.status = Trial.PAUSED
        else:
            assert decision == "CONTINUE"

    def _end(self, trial: FakeTrial, status: Any) -> None:
        trial.status = Trial.TERMINATED
        if self.record is not None:
            self.record.end(trial.number, status)


def score_of(number: int, epoch: int) -> float:
    """Never twice the same: Ray breaks ties by who came last, we by who came first."""
    return random.Random(f"{number} {epoch}").random()


def new_record(
    folder: Path,
    config: SweepConfig,
    mode: Mode = "max",
    objectives: Sequence[str] = (),
    constraints: Sequence[str] = (),
) -> Record:
    folder.mkdir(exist_ok=True)
    judged = {"metric": "m", "objectives": list(objectives), "constraints": list(constraints)}
    record = Record.create(folder, "s", mode, {**judged, "fixed": {}})
    record.plan_trials(config.num_trials or 0)
    return record


def resumed(module: Any, config: SweepConfig, record: Record, seed: str, slots: int = 3) -> Play:
    """A play that goes on from a record: its live trials begin anew and report their last epoch once more."""
    again = Play(config, module.build(config, record), record, seed, slots)
    for row in record.trials:
        last = max(row.epochs, default=0)
        known = FakeTrial(row.number, Trial.TERMINATED, last)
        again.trials.append(known)
        if row.status == "unfinished":
            known.status, known.epoch = Trial.PENDING, max(0, last - 1)
    return again


def record_of(folder: Path, mode: Mode, trials: int) -> Record:
    folder.mkdir(exist_ok=True)
    record = Record.create(folder, "s", mode, {"metric": "m", "fixed": {}})
    for _ in range(trials):
        propose(record, {})
    return record


def decide(scheduler: Any, record: Record, number: int, epoch: int, score: float) -> str:
    """As Tune does it: the scheduler first, then the callback that writes the epoch."""
    result = {REPORT: Report(epoch, score, {}, 1.0)}
    decision = scheduler.on_trial_result(None, FakeTrial(number), result)
    record.report(number, epoch, score, {}, 1.0)
    return str(decision)


def arrive(config: SweepConfig, record: Record, epoch: int, *scores: float) -> list[str]:
    """New trials come to a rung; the decisions when each of them came."""
    decisions = []
    for score in scores:
        number = propose(record, {}).number
        decisions.append(
            Halving.for_record(config, record).decide(number, epoch, record.objectives.losses(score, {}))
        )
        record.report(number, epoch, score, {}, 1.0)
    return decisions


def decisions(config: SweepConfig, record: Record, epoch: int) -> list[str]:
    made = Halving.for_record(config, record)
    return [made.decide(number, epoch) for number in record.scores_at(epoch)]
