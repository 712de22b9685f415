"""The notice at the end: sent once, whatever the outcome, and whatever becomes of it.

That real sweeps send it, by outcome: tests/end_to_end/test_failing_trials.py.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import pytest

from sweeps.common.errors import UserError
from sweeps.execution.output import notify
from sweeps.execution.run_context import RunEnd
from sweeps.record.journal import RecordLost
from sweeps.record.sweep_info import Outcome
from tests.conftest import told
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
        "SWEEP_NAME": "s",
        "SWEEP_OUTCOME": "out of time",
        "SWEEP_STATUS": "0",
        "SWEEP_METRIC": "score",
        "SWEEP_BEST": "5.0",
        "SWEEP_TRIAL": "1",
        "SWEEP_FOLDER": str(tmp_path / "s"),
        "SWEEP_TEXT": "s: out of time; best score 5 (trial 1, epoch 2)",
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
    child = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    for _ in range(100):  # it has been sent SIGKILL; nobody may have reaped it yet
        with contextlib.suppress(FileNotFoundError):
            if child.read_text().rpartition(")")[2].split()[0] != "Z":
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
