"""Why and when a sweep ends before its last trial."""

from __future__ import annotations

import os
import signal

import pytest

from sweeps.execution.stopping import End, stops_on_signals


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_time_that_earlier_runs_took_is_part_of_the_budget() -> None:
    clock = Clock()
    end = End(1.0, used_s=3000.0, clock=clock)
    clock.now += 599
    assert not end.stop_all()
    clock.now += 1
    assert end.stop_all()
    assert end.outcome == "out of time"


def test_without_a_budget_it_goes_on_until_somebody_stops_it() -> None:
    clock = Clock()
    end = End(None, clock=clock)
    clock.now += 1e9
    assert (end.stop_all(), end.outcome) == (False, "finished")
    end.stop("lost", "the disk is full")
    assert (end.stop_all(), end.outcome, end.error) == (True, "lost", "the disk is full")


def test_what_stopped_it_first_is_not_taken_for_the_time() -> None:
    clock = Clock()
    end = End(1.0, clock=clock)
    end.stop("interrupted")
    clock.now += 7200
    assert end.stop_all()
    assert end.outcome == "interrupted"


def test_the_first_signal_ends_it_in_order_and_the_next_is_pythons_own() -> None:
    end, said = End(None), []
    before = signal.getsignal(signal.SIGINT)
    with stops_on_signals(end, said.append):
        os.kill(os.getpid(), signal.SIGINT)
        assert (end.outcome, len(said)) == ("interrupted", 1)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    end = End(None)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with stops_on_signals(end, print):
            os.kill(os.getpid(), signal.SIGHUP)
        assert end.outcome == "finished"
    finally:
        signal.signal(signal.SIGHUP, before)
