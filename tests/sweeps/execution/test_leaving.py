"""What is said, and who is asked to leave, when a sweep stops early."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.driver.tuner import Leaving
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome
from tests.support.contexts import context_of, said


def test_a_sweep_that_is_lost_says_why_before_it_saves(tmp_path: Path) -> None:
    now, asked = [0.0], list[Any]()
    processes: Any = SimpleNamespace(training=lambda: ["a process"], ask_to_leave=asked.append)
    record = Record.create(tmp_path, "s", "max", {"metric": "m"})
    context = context_of(tmp_path, record, SweepConfig(stop_grace=60))
    leaving = Leaving(context, processes, lambda: now[0])
    context.end.let_leave = leaving.go_on
    for error in ("the first 3 trials all failed", "the first 4 trials all failed"):
        context.end.stop(Outcome.LOST, error, can_save=True)
        assert not context.end.stop_all()
    assert asked == [["a process"]] * 2
    assert record.is_held, "no trial begins"
    now[0] = 60
    assert context.end.stop_all()
    assert said(context) == [
        "Stopping: the first 3 trials all failed",
        "Saving what 1 trial trained, for at most 1 min 0 s ...",
    ]
