"""Why and when a sweep ends before its last trial."""

from __future__ import annotations

import os
import signal

import pytest

from sweeps.execution.driver.tuner import stops_on_signals
from sweeps.execution.run_context import RunEnd
from sweeps.record.sweep_info import Outcome


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_time_that_earlier_runs_took_is_part_of_the_budget() -> None:
    elapsed = Clock()
    end = RunEnd(1.0, elapsed)
    elapsed.now = 3599
    assert not end.stop_all()
    elapsed.now = 3600
    assert end.stop_all()
    assert end.outcome == "out of time"


def test_without_a_budget_it_goes_on_until_somebody_stops_it() -> None:
    end = RunEnd(None, lambda: 1e9)
    assert (end.stop_all(), end.is_running) == (False, True)
    end.stop(Outcome.LOST, "the disk is full")
    assert (end.stop_all(), end.outcome, end.error) == (True, "lost", "the disk is full")


def test_what_stopped_it_first_is_not_taken_for_the_time() -> None:
    end = RunEnd(1.0, lambda: 7200.0)
    end.stop(Outcome.INTERRUPTED)
    assert end.stop_all()
    assert end.outcome == "interrupted"


def test_it_ends_once_its_trials_have_left_unless_nothing_can_be_saved() -> None:
    end = RunEnd(None)
    end.let_leave = lambda: True
    end.stop(Outcome.INTERRUPTED)
    assert not end.stop_all()
    end.let_leave = lambda: False
    assert end.stop_all()
    end.stop(Outcome.PAUSED)
    end.let_leave = lambda: True
    assert not end.stop_all()
    for outcome in (Outcome.LOST, Outcome.ERROR):
        end = RunEnd(None)
        end.let_leave = lambda: True
        end.stop(outcome, "the disk is full")
        assert end.stop_all()


def test_a_sweep_that_is_lost_lets_its_trials_leave_where_they_can_save() -> None:
    end = RunEnd(None)
    end.let_leave = lambda: True
    end.stop(Outcome.LOST, "the first 3 trials all failed", can_save=True)
    assert not end.stop_all()
    end.let_leave = lambda: False
    assert end.stop_all()
    end.let_leave = lambda: True
    end.stop(Outcome.LOST, "the disk is full")
    assert end.stop_all(), "what comes later is worse"


def test_whether_it_is_due_is_told_without_a_word_to_the_trials() -> None:
    def let_leave() -> bool:
        raise AssertionError("only Tune's loop lets them leave")

    elapsed = Clock()
    end = RunEnd(1.0, elapsed)
    end.let_leave, elapsed.now = let_leave, 3599
    assert not end.is_due
    elapsed.now = 3600
    assert (end.is_due, end.is_running) == (True, True)
    for outcome in (Outcome.PAUSED, Outcome.INTERRUPTED, Outcome.LOST):
        end = RunEnd(None)
        end.let_leave = let_leave
        end.stop(outcome)
        assert end.is_due


def test_the_first_signal_ends_it_in_order_and_a_second_ctrl_c_at_once() -> None:
    end, said, clock = RunEnd(None), [], Clock()
    before = signal.getsignal(signal.SIGINT)
    with stops_on_signals(end, said.append, clock):
        os.kill(os.getpid(), signal.SIGINT)
        assert (end.outcome, len(said)) == ("interrupted", 1)
        os.kill(os.getpid(), signal.SIGINT)  # the same one, passed on by a launcher
        clock.now += 1
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_sigterm_changes_nothing() -> None:
    end, said, clock = RunEnd(None), [], Clock()
    with stops_on_signals(end, said.append, clock):
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
            clock.now += 5
    assert (end.outcome, len(said)) == ("interrupted", 1)


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    end = RunEnd(None)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with stops_on_signals(end, print):
            os.kill(os.getpid(), signal.SIGHUP)
        assert end.is_running
    finally:
        signal.signal(signal.SIGHUP, before)
