"""The notices: at the end, sent once, whatever the outcome, and whatever becomes of it; and those of a sweep
that runs.

That real sweeps send it, by outcome: tests/end_to_end/test_failing_trials.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from sweeps.common.errors import UserError
from sweeps.execution.output import notify
from sweeps.execution.run_context import RunContext, RunEnd
from sweeps.record.journal import RecordLost
from sweeps.record.sweep_info import Outcome
from sweeps.record.trials import Status
from sweeps.space.point import OptunaPoint, Point
from tests.conftest import told
from tests.support.contexts import context_of, said
from tests.sweeps.plan.test_resume import Sweep

RUNNING = "Running --notify-command ...\n"


def sweep(tmp_path: Path, command: str | None = "env | grep ^SWEEP_ > 'told'") -> Sweep:
    """A sweep of two trials whose command writes what it is told; see `told`."""
    if command is not None:
        command = command.replace("told", str(tmp_path / "told"))
    made = Sweep(tmp_path, notify_command=command)
    made.trial(1.0, 2.0, ended="pruned")
    made.trial(1.0, 5.0, 4.0, ended="finished")
    return made


def test_the_command_is_told_how_the_run_ended(tmp_path: Path) -> None:
    of = sweep(tmp_path)
    end = RunEnd(Outcome.OUT_OF_TIME, has_begun=True, status=0)
    with notify.at_the_end(of.plan, of.record, end):
        pass
    assert told(tmp_path) == {
        "SWEEP_EVENT": "end",
        "SWEEP_NAME": "s",
        "SWEEP_OUTCOME": "out of time",
        "SWEEP_STATUS": "0",
        "SWEEP_METRIC": "score",
        "SWEEP_BEST": "5.0",
        "SWEEP_TRIAL": "1",
        "SWEEP_FOLDER": str(tmp_path / "s"),
        "SWEEP_TEXT": "s: out of time; best score 5 (trial 1, epoch 2)",
        "SWEEP_TEXT_JSON": '"s: out of time; best score 5 (trial 1, epoch 2)"',
    }


@pytest.mark.parametrize(
    ("error", "outcome", "status"),
    [
        (KeyboardInterrupt(), "interrupted", "130"),
        (UserError("no such metric"), "error", "2"),
        (RecordLost("the disk is gone"), "lost", "2"),
        (RuntimeError("a defect"), "crashed", "1"),
        (SystemExit(3), "crashed", "1"),
    ],
)
def test_a_run_that_an_exception_ends_is_told_and_the_exception_goes_on(
    error: BaseException, outcome: str, status: str, tmp_path: Path
) -> None:
    of, end = sweep(tmp_path), RunEnd(has_begun=True)

    def run() -> None:
        with notify.at_the_end(of.plan, of.record, end):
            raise error

    with pytest.raises(type(error)) as raised:
        run()
    assert raised.value is error
    assert (told(tmp_path)["SWEEP_OUTCOME"], told(tmp_path)["SWEEP_STATUS"]) == (outcome, status)
    assert (end.outcome, end.status) == (Outcome.RUNNING, 1), "to tell of it changes nothing"


def test_a_run_that_has_not_begun_tells_nobody(tmp_path: Path) -> None:
    of = sweep(tmp_path)
    with pytest.raises(UserError, match="no cluster"), notify.at_the_end(of.plan, of.record, RunEnd()):
        raise UserError("no cluster answers")
    with notify.at_the_end(of.plan, of.record, RunEnd()):
        pass
    assert not (tmp_path / "told").exists()


def test_without_a_best_trial_the_text_says_so(tmp_path: Path) -> None:
    of = Sweep(tmp_path, notify_command=f"env | grep ^SWEEP_ > {tmp_path / 'told'}")
    of.trial(ended="failed")
    with notify.at_the_end(of.plan, of.record, RunEnd(Outcome.FINISHED, has_begun=True)):
        pass
    assert told(tmp_path)["SWEEP_TEXT"] == "s: finished; no trial ended well"
    assert told(tmp_path)["SWEEP_BEST"] == told(tmp_path)["SWEEP_TRIAL"] == ""


@pytest.mark.parametrize("command", [None, ""])
def test_without_a_command_nothing_is_run(
    command: str | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    of = sweep(tmp_path, command)
    with notify.at_the_end(of.plan, of.record, RunEnd(has_begun=True)):
        pass
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("exit 7", "exit status 7"),
        ("kill -9 $$", "exit status -9"),
        ("a\0b", "embedded null byte"),
    ],
)
def test_a_command_that_fails_costs_a_line(
    command: str, line: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    notify.send(command, {})
    assert capfd.readouterr() == (f"{RUNNING}--notify-command failed: {line}\n", "")


def test_what_a_command_prints_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    notify.send("echo sent; echo indeed >&2", {})
    assert capfd.readouterr() == (f"{RUNNING}sent\n", "indeed\n")


def test_a_command_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = f"sleep 1000 & echo $! > {tmp_path / 'pid'}; wait"
    notify.send(command, {}, timeout_s=1.0)
    assert capfd.readouterr().out == f"{RUNNING}--notify-command failed: timed out after 1 s\n"
    assert_ends(tmp_path / "pid")


def assert_ends(file: Path) -> None:
    """That a process ends, whose id is in a file, unless it was ended before it could write that. It has been
    sent SIGKILL; nobody may have reaped it yet."""
    if not file.exists() or not (pid := file.read_text().strip()):
        return
    stat = Path("/proc", pid, "stat")
    for _ in range(100):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if stat.read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.1)
                continue
        return
    pytest.fail("a process of the command's group lives on")


def test_what_a_command_leaves_in_the_background_is_not_waited_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    notify.send(f"sleep 1000 & echo $! > {tmp_path / 'pid'}", {}, timeout_s=600.0)
    left = int((tmp_path / "pid").read_text())
    os.kill(left, 9)  # raises when it is gone: it was left alone
    assert capfd.readouterr().out == RUNNING


def alerted(tmp_path: Path, notify_on: str, **settings: Any) -> tuple[RunContext, Path]:
    """The context of a sweep of four trials, whose command writes a line for each notice."""
    lines = tmp_path / "lines"
    command = f'echo "$SWEEP_EVENT|$SWEEP_OUTCOME|$SWEEP_STATUS|$SWEEP_TRIAL|$SWEEP_TEXT" >> {lines}'
    settings = {"notify_command": command, **settings}
    made = Sweep(tmp_path, notify_on=notify_on, num_trials=4, **settings)
    made.record.plan_trials(4)
    return context_of(made.plan.folder, made.record, made.plan.config), lines


def report(context: RunContext, *scores: float, ended: Status | None = None, reason: str = "") -> None:
    """Begin a trial, report its epochs, and end it."""
    number = context.record.begin(Point("m", {"x": 1.0}), OptunaPoint(), 0).number
    for epoch, score in enumerate(scores, 1):
        context.record.report(number, epoch, score, {"score": score}, 0.0)
    if ended:
        context.record.end(number, ended, reason)


def test_a_sweep_that_runs_tells_what_it_is_asked_for(tmp_path: Path) -> None:
    context, lines = alerted(tmp_path, "best,failed,half", max_concurrent=1)
    alerts = notify.Alerts(context, every_s=0.0)
    for scores, ended, reason in (
        ((3.0,), "pruned", ""),
        ((1.0,), "finished", ""),
        ((), "failed", "no disk"),
    ):
        report(context, *scores, ended=ended, reason=reason)  # type: ignore[arg-type]
        alerts.on_step_end(0, [])
    alerts.close()
    assert sorted(lines.read_text().splitlines()) == [
        "best|running||0|s: new best; best score 3 (trial 0, epoch 1)",
        "failed|running||0|s: trial 2 failed: no disk; best score 3 (trial 0, epoch 1)",
        "half|running||0|s: half of the trials is through, 2 of 4; best score 3 (trial 0, epoch 1)",
    ]
    report(context, ended="failed")
    assert len(lines.read_text().splitlines()) == 3, "it is closed"


def test_within_a_minute_the_newest_is_told_and_failures_are_counted(tmp_path: Path) -> None:
    context, lines = alerted(tmp_path, "best,failed")
    alerts = notify.Alerts(context, every_s=3600.0)
    report(context, 1.0)
    report(context, ended="failed", reason="first")
    alerts.on_step_end(0, [])
    while len(lines.read_text().splitlines() if lines.exists() else ()) < 2:
        time.sleep(0.01)
    for score in (2.0, 3.0):
        report(context, score)
        alerts.on_step_end(0, [])
        report(context, ended="failed", reason=f"of {score:g}")
    assert len(lines.read_text().splitlines()) == 2, "the hour is not over"
    alerts.close()  # at the end nothing is kept back
    assert sorted(lines.read_text().splitlines()[2:]) == [
        "best|running||4|s: new best; best score 3 (trial 4, epoch 1, unfinished)",
        "failed|running||4|s: 2 trials failed, the last one trial 5: of 3; "
        "best score 3 (trial 4, epoch 1, unfinished)",
    ]


def test_what_has_happened_before_is_no_news(tmp_path: Path) -> None:
    context, lines = alerted(tmp_path, "best,failed,half")
    report(context, 1.0, ended="finished")
    report(context, 1.0, ended="failed")
    alerts = notify.Alerts(context, every_s=0.0)
    report(context, 0.5, ended="finished")
    alerts.on_step_end(0, [])
    alerts.close()
    assert not lines.exists()


def test_half_of_the_time_is_told(tmp_path: Path) -> None:
    context, lines = alerted(tmp_path, "half", time_budget_hours=1.0)
    alerts = notify.Alerts(context, every_s=0.0)
    alerts.on_step_end(0, [])
    context.plan = dataclasses.replace(context.plan, config=context.config.changed(time_budget_hours=1e-9))
    context.record.start_clock()
    time.sleep(0.001)
    alerts.on_step_end(0, [])
    alerts.on_step_end(0, [])
    alerts.close()
    assert (
        lines.read_text() == "half|running|||s: half of --time-budget-hours is through; no trial ended well\n"
    )


def test_a_command_that_fails_again_and_again_costs_one_line(tmp_path: Path) -> None:
    context, _ = alerted(tmp_path, "failed", notify_command="echo refused >&2; exit 22")
    alerts = notify.Alerts(context, every_s=0.0)
    for _ in range(3):
        report(context, ended="failed")
    alerts.close()
    assert said(context) == ["--notify-command failed at 'failed': exit status 22: refused"]


def test_a_full_disk_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, lines = alerted(tmp_path, "failed")
    alerts = notify.Alerts(context, every_s=0.0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))  # no file can be made there
    report(context, ended="failed", reason="no space")
    alerts.close()
    assert lines.read_text() == "failed|running|||s: trial 0 failed: no space; no trial ended well\n"
    assert said(context) == []


def test_a_command_that_hangs_does_not_hold_the_sweep_and_is_not_left(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    context, _ = alerted(tmp_path, "best", notify_command=f"sleep 1000 & echo $! > {pid}; wait")
    sender = notify._Sender(str(context.config.notify_command), context.say, 0.0)
    sender.start()
    sender.put("best", {"SWEEP_EVENT": "best"})
    while not pid.exists() or not pid.read_text().strip():
        time.sleep(0.01)
    sender.put("best", {"SWEEP_EVENT": "best"})
    sender.close(last_s=0.1)
    sender.join(30)
    assert not sender.is_alive()
    assert_ends(pid)


@pytest.mark.parametrize("notify_on", ["end", "best"])
def test_the_end_is_told_where_it_is_asked_for(notify_on: str, tmp_path: Path) -> None:
    of = Sweep(tmp_path, notify_command=f"env > {tmp_path / 'told'}", notify_on=notify_on)
    with notify.at_the_end(of.plan, of.record, RunEnd(Outcome.FINISHED, has_begun=True)):
        pass
    assert (tmp_path / "told").exists() == (notify_on == "end")


def test_a_leader_that_diverges_leaves_no_new_best(tmp_path: Path) -> None:
    context, lines = alerted(tmp_path, "best")
    report(context, 1.0, ended="finished")
    report(context, 3.0)
    alerts = notify.Alerts(context, every_s=0.0)
    context.record.end(1, "diverged")
    alerts.on_step_end(0, [])
    report(context, 2.0, ended="finished")
    alerts.on_step_end(0, [])
    report(context, 4.0, ended="finished")
    alerts.on_step_end(0, [])
    alerts.close()
    assert lines.read_text().splitlines() == ["best|running||3|s: new best; best score 4 (trial 3, epoch 1)"]


def test_a_reason_of_any_length_is_told_shortened(tmp_path: Path) -> None:
    context, lines = alerted(tmp_path, "failed")
    alerts = notify.Alerts(context, every_s=0.0)
    report(context, ended="failed", reason="x" * 1_000_000)
    alerts.close()
    assert said(context) == []
    (line,) = lines.read_text().splitlines()
    assert line.endswith("xxx ...")
    assert len(line.split("|")[-1]) == 1_000
