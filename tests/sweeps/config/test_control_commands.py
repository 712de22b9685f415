"""The commands that steer a sweep, as they are typed."""

from __future__ import annotations

import pytest

from sweeps.common.errors import UserError
from sweeps.config.control_commands import Command, parse

CHOICES = "Choices: stop, try, retry, set, pause, go, finish, note, tag, untag"


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("stop 7", Command("stop", trial=7)),
        ("stop trial_0007", Command("stop", trial=7)),
        ("try lr=1e-3 name=cnn on=true", Command("try", values={"lr": 0.001, "name": "cnn", "on": True})),
        (
            "set num-trials=48 max_concurrent=3 time-budget-hours=2.5",
            Command("set", values={"num_trials": 48, "max_concurrent": 3, "time_budget_hours": 2.5}),
        ),
        (
            "set time-budget-hours=none max-concurrent=null",
            Command("set", values={"time_budget_hours": None, "max_concurrent": None}),
        ),
        (
            "set patience=5 lr=1e-4..1e-2:log net.width=16,32 momentum=0.9",
            Command(
                "set",
                values={"patience": 5},
                ranges={"lr": "1e-4..1e-2:log", "net.width": "16,32", "momentum": 0.9},
            ),
        ),
        ("retry failed 7 trial_0012 7", Command("retry", retried=("failed", 7, 12))),
        ("pause", Command("pause")),
        ("go", Command("go")),
        ("finish", Command("finish")),
    ],
)
def test_a_command_is_read(typed: str, command: Command) -> None:
    assert parse(typed.split()) == command


@pytest.mark.parametrize(
    ("typed", "lines"),
    [
        ("", [f"give a command. {CHOICES}"]),
        ("stp", [f"stp: no such command. Did you mean 'stop'? {CHOICES}"]),
        ("stop", ["stop: give the number of one trial, as in stop 7"]),
        ("stop 1 2", ["stop 1 2: give the number of one trial, as in stop 7"]),
        ("stop -1", ["stop -1: give the number of one trial, as in stop 7"]),
        (
            "retry faild 7 x",
            [
                "retry faild: give numbers of trials, or failed, diverged or infeasible, as in retry failed. "
                "Did you mean 'failed'?",
                "retry x: give numbers of trials, or failed, diverged or infeasible, as in retry failed.",
            ],
        ),
        ("pause now", ["pause now: pause takes nothing else"]),
        ("try", ["try: give name=value, as in try lr=0.1 batch_size=64"]),
        (
            "try lr lr=1 lr=2",
            [
                "try lr: give name=value, as in try lr=0.1 batch_size=64",
                "try lr is given twice",
            ],
        ),
        (
            "set max-concurrent=0 time-budget-hours=0",
            [
                "set max-concurrent 0: must be at least 1",
                "set time-budget-hours 0: must be above 0",
            ],
        ),
        (
            "set num-trials=2000000",
            ["set num-trials 2000000: must be at least 1 and at most 1,000,000"],
        ),
        ("set num-trials=none", ["set num-trials none: must be a whole number"]),
        ("set num-trials=many", ["set num-trials many: must be a whole number"]),
    ],
)
def test_every_fault_is_named_with_what_would_fit(typed: str, lines: list[str]) -> None:
    with pytest.raises(UserError) as raised:
        parse(typed.split())
    assert str(raised.value).splitlines() == lines
