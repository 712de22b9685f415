"""Why and when a sweep ends before its last trial; what is said then, and who is asked to leave."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.driver.tuner import Leaving, stops_on_signals
from sweeps.execution.run_context import RunContext
from sweeps.record.sweep_info import Outcome
from tests.support.contexts import context_of, said


class Stopping:
    """A sweep that stops, while one process trains a trial."""

    def __init__(self, folder: Path, saves: bool = True, **settings: Any) -> None:
        self.record: Any = SimpleNamespace(elapsed_s=0.0, is_held=False)
        model: Any = SimpleNamespace(trainable=SimpleNamespace(saves=saves))
        config = SweepConfig(stop_grace=60, **settings)
        self.context = context_of(folder, self.record, config, models=(model,))
        self.training, self.asked, self.now = ["a process"], list[Any](), 0.0
        processes: Any = SimpleNamespace(training=lambda: self.training, ask_to_leave=self.asked.append)
        self.leaving = Leaving(self.context, processes, lambda: self.now)
        self.end = self.context.end

    @property
    def ends(self) -> bool:
        return self.leaving.stop_all()


def test_the_time_that_earlier_runs_took_is_part_of_the_budget(tmp_path: Path) -> None:
    sweep = Stopping(tmp_path, time_budget_hours=1.0)
    sweep.training, sweep.record.elapsed_s = [], 3599
    assert not sweep.context.is_due
    assert not sweep.ends
    sweep.record.elapsed_s = 3600
    assert (sweep.context.is_due, sweep.end.is_running) == (True, True)
    assert sweep.ends
    assert sweep.end.outcome == "out of time"


def test_without_a_budget_it_goes_on_until_somebody_stops_it(tmp_path: Path) -> None:
    sweep = Stopping(tmp_path)
    sweep.record.elapsed_s = 1e9
    assert (sweep.ends, sweep.end.is_running) == (False, True)
    sweep.end.stop(Outcome.LOST, "the disk is full")
    assert (sweep.ends, sweep.end.outcome, sweep.end.error) == (True, "lost", "the disk is full")
    assert sweep.asked == []


def test_what_stopped_it_first_is_not_taken_for_the_time(tmp_path: Path) -> None:
    sweep = Stopping(tmp_path, time_budget_hours=1.0)
    sweep.training, sweep.record.elapsed_s = [], 7200.0
    sweep.end.stop(Outcome.INTERRUPTED)
    assert sweep.ends
    assert sweep.end.outcome == "interrupted"


@pytest.mark.parametrize("outcome", [Outcome.INTERRUPTED, Outcome.PAUSED, Outcome.OUT_OF_TIME])
def test_it_ends_once_its_trials_have_left(outcome: Outcome, tmp_path: Path) -> None:
    sweep = Stopping(tmp_path)
    sweep.end.stop(outcome)
    assert sweep.context.is_due
    assert sweep.asked == [], "only Tune's loop lets them leave"
    assert not sweep.ends
    assert sweep.asked == [["a process"]]
    sweep.training = []
    assert sweep.ends


@pytest.mark.parametrize("outcome", [Outcome.LOST, Outcome.ERROR])
def test_it_ends_at_once_where_nothing_can_be_saved(outcome: Outcome, tmp_path: Path) -> None:
    sweep = Stopping(tmp_path)
    sweep.end.stop(Outcome.LOST, "the first 3 trials all failed", can_save=True)
    assert not sweep.ends
    sweep.end.stop(outcome, "the disk is full")
    assert sweep.ends, "what comes later is worse"


def test_a_sweep_that_is_lost_says_why_before_it_saves(tmp_path: Path) -> None:
    sweep = Stopping(tmp_path)
    for error in ("the first 3 trials all failed", "the first 4 trials all failed"):
        sweep.end.stop(Outcome.LOST, error, can_save=True)
        assert not sweep.ends
    assert sweep.asked == [["a process"]] * 2
    assert sweep.record.is_held, "no trial begins"
    sweep.now = 60
    assert sweep.ends
    assert said(sweep.context) == [
        "Stopping: the first 3 trials all failed",
        "Saving what 1 trial trained, for at most 1 min 0 s ...",
    ]


def test_nothing_is_said_to_be_saved_of_trainings_that_save_nothing(tmp_path: Path) -> None:
    sweep = Stopping(tmp_path, saves=False)
    sweep.end.stop(Outcome.INTERRUPTED)
    assert not sweep.ends
    assert said(sweep.context) == ["Waiting for the next report of 1 trial, for at most 1 min 0 s ..."]


def of_sweep(folder: Path, waits_since: float | None = None) -> RunContext:
    record: Any = SimpleNamespace(info=SimpleNamespace(waits_since=waits_since))
    return context_of(folder, record, SweepConfig())


def test_the_first_signal_ends_it_in_order_and_a_second_ctrl_c_at_once(tmp_path: Path) -> None:
    context, now = of_sweep(tmp_path), [0.0]
    before = signal.getsignal(signal.SIGINT)
    with stops_on_signals(context, lambda: now[0]):
        os.kill(os.getpid(), signal.SIGINT)
        assert (context.end.outcome, len(said(context))) == ("interrupted", 1)
        os.kill(os.getpid(), signal.SIGINT)  # the same one, passed on by a launcher
        now[0] += 1
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_sigterm_changes_nothing(tmp_path: Path) -> None:
    context, now = of_sweep(tmp_path), [0.0]
    with stops_on_signals(context, lambda: now[0]):
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
            now[0] += 5
    assert (context.end.outcome, len(said(context))) == ("interrupted", 1)


def test_in_the_queue_no_epochs_are_said_to_be_repeated(tmp_path: Path) -> None:
    context = of_sweep(tmp_path, waits_since=1.0)
    with stops_on_signals(context, lambda: 0.0):
        os.kill(os.getpid(), signal.SIGINT)
    assert (context.end.outcome, said(context)) == (
        "interrupted",
        ["Leaving the queue. Nothing trains, and all results so far are recorded."],
    )


def test_a_signal_that_was_ignored_stays_ignored(tmp_path: Path) -> None:
    context = of_sweep(tmp_path)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with stops_on_signals(context):
            os.kill(os.getpid(), signal.SIGHUP)
        assert context.end.is_running
    finally:
        signal.signal(signal.SIGHUP, before)
