"""The silence of real processes, by a clock of the test's own."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.exceptions import RayActorError

from sweeps.execution.faults.hung_trials import MOST_BETWEEN_TURNS_S, TOLD_AT_FIRST_S, HungTrials
from sweeps.execution.trial_actors import TrialActor
from sweeps.record.sweep_info import Steered
from sweeps.search.search_method import RecordSearcher
from sweeps.trial.output import Introduction
from tests.conftest import propose
from tests.support.contexts import requeue_of, said
from tests.sweeps.execution.test_preflight import Sweep
from tests.sweeps.execution.test_preflight import ray_session as ray_session

TIMEOUT_S = 60.0


@ray.remote(num_cpus=0)
class Trainer:
    """A process of trials, whose preflight answers once a file is there."""

    def __init__(self, answers: Path) -> None:
        self._answers = answers

    def introduce(self, mailbox: object, name: str) -> Introduction:
        context = ray.get_runtime_context()
        return Introduction(context.get_node_id(), context.get_actor_id() or "", pid=os.getpid())

    def preflight(self, config: object) -> list[Any]:
        while not self._answers.exists():
            time.sleep(0.05)
        return []


class Silent(Sweep):
    """A sweep of two trials; a process has begun the first one, in the order of Tune's callbacks."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **{"num_trials": 2, "epoch_timeout_minutes": TIMEOUT_S / 60, **settings})
        for size in (1, 2):
            propose(self.record, {"size": size})
        self.now = 0.0
        self.hung = HungTrials(self.context, self.processes, lambda: self.now)
        no_space: Any = None
        self.searcher = RecordSearcher(self.record, no_space, lambda nth: iter(()), self.context.config)
        self.searcher.slots = 2
        self.requeue = requeue_of(self.context, self.searcher, self.processes)
        assert [self.searcher.suggest(f"{n}")["number"] for n in range(2)] == [0, 1]
        self.actor: Any = Trainer.remote(folder / "answers")
        self.trial = self.begin(0)
        process = self.processes.actor_of(self.trial)
        assert process is not None
        self.process: TrialActor = process
        ray.get(process.introduction)

    def begin(self, number: int) -> Any:
        """A trial in that process."""
        at = SimpleNamespace(ray_actor=self.actor)
        trial: Any = SimpleNamespace(config={"number": number}, temporary_state=at)
        for callback in (self.processes, self.preflight, self.hung):
            callback.on_trial_start(0, [], trial)
        return trial

    def pass_by(self, seconds: float) -> None:
        """Turns of Tune's loop in which nothing is reported."""
        until = self.now + seconds
        while self.now < until:
            self.now += MOST_BETWEEN_TURNS_S
            self.preflight.on_step_begin(0, [])
            self.hung.on_step_end(0, [])

    def lost(self, trial: Any) -> str:
        """Why a trial has failed, as its process is lost; "" where it is requeued."""
        return self.requeue.after_lost_process(trial, RayActorError())[0]


@pytest.mark.slow
def test_a_preflight_that_hangs_is_ended_and_costs_its_trial_nothing(tmp_path: Path) -> None:
    sweep = Silent(tmp_path)
    sweep.pass_by(2 * TIMEOUT_S)
    assert not sweep.process.is_gone, "it has that long for each of two points"
    sweep.pass_by(MOST_BETWEEN_TURNS_S)
    assert sweep.process.is_gone
    assert sweep.lost(sweep.trial) == ""
    assert sweep.searcher.suggest("again")["number"] == 0
    assert said(sweep.context)[-1].startswith("Preflight   its process on ")
    assert "ended: no epoch within 1 min (--epoch-timeout-minutes); such" in said(sweep.context)[-1]


def test_the_silence_of_a_trial_begins_after_the_preflight(tmp_path: Path) -> None:
    sweep = Silent(tmp_path)
    sweep.pass_by(TIMEOUT_S)
    (tmp_path / "answers").touch()
    assert sweep.process.preflight is not None
    ray.get(sweep.process.preflight.findings)
    sweep.pass_by(TIMEOUT_S)
    assert not sweep.process.is_gone
    sweep.pass_by(MOST_BETWEEN_TURNS_S)
    assert sweep.lost(sweep.trial) == "no epoch within 1 min (--epoch-timeout-minutes)"
    after = sweep.begin(1)  # Tune may give a process that is gone to another trial
    assert sweep.lost(after) == "", "the other one has not hung"
    assert sweep.searcher.suggest("again")["number"] == 1


def test_a_trial_does_not_fail_for_another_one_that_reported_as_its_process_was_ended(tmp_path: Path) -> None:
    sweep = Silent(tmp_path, preflight=False)
    sweep.pass_by(TIMEOUT_S + MOST_BETWEEN_TURNS_S)
    assert sweep.process.is_gone
    assert sweep.lost(sweep.begin(1)) == ""
    assert sweep.searcher.suggest("again")["number"] == 1


@pytest.mark.parametrize("is_to_stop", [False, True])
def test_a_stopped_trial_that_hangs_before_it_has_caught_up_is_ended(
    is_to_stop: bool, tmp_path: Path
) -> None:
    """Where it trains epochs again, it is not asked to leave."""
    sweep = Silent(tmp_path, preflight=False, stop_grace=20.0, epoch_timeout_minutes=None)
    if is_to_stop:
        sweep.record.note_steered(Steered(["stop", "0"]))
    sweep.pass_by(TOLD_AT_FIRST_S)
    assert sweep.process.leaves_in_s is None
    sweep.pass_by(3 * MOST_BETWEEN_TURNS_S)
    assert sweep.process.is_gone is is_to_stop
    (told,) = said(sweep.context)
    if is_to_stop:
        assert told == "Trial 0 has not left within 20 s: its process is ended"
        assert sweep.lost(sweep.trial) == ""
        assert sweep.processes.not_left[0] == 1
    else:
        assert told.startswith("Trial 0 has reported nothing for 30 min")
