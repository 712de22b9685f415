"""A single run that is stopped saves its position, and continues there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sweeps import fit
from sweeps.kinds.params_file import WEIGHTS_FILE
from tests.conftest import MODE, ROOT

STEPWISE = ("tests.faulty.stepwise", "--max-epochs", "3", "--threads", "1")


def started(
    folder: Path, *arguments: str, step_s: float = 0.0, stops_by: signal.Signals | None = None
) -> subprocess.Popen[str]:
    """A run, in a process group of its own; the model may stop it by a signal to that."""
    more = {"SWEEPS_PREPARED_DIR": str(folder / "prepared"), "TOY_ATTEMPTS": str(folder)}
    more |= {} if stops_by is None else {"STOPS_BY": str(int(stops_by))}
    return subprocess.Popen(
        [Path(sys.executable).with_name("sweeps"), "fit", *arguments],
        cwd=ROOT,
        env={
            **{name: os.environ[name] for name in os.environ if name != MODE},
            **more,
            "STEP_S": str(step_s),
        },
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str], status: int = 0) -> str:
    """What a run prints up to its end."""
    assert process.stdout is not None
    output = process.stdout.read()
    assert process.wait(120) == status, output
    assert "Traceback" not in output
    return output


def interrupt_twice(process: subprocess.Popen[str]) -> str:
    """Ctrl-C, and once more when that was heard at least a second ago; what the run prints meanwhile."""
    assert process.stdout is not None
    os.killpg(process.pid, signal.SIGINT)
    said = ""
    while "\nStopping. The run is saved at its next step" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    time.sleep(1.1)
    os.killpg(process.pid, signal.SIGINT)
    return said


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(1200):
        if is_so():
            return
        time.sleep(0.1)
    pytest.fail("it did not come to that")


def lives(group: int) -> bool:
    """Whether a process of a group lives."""
    found = subprocess.run(["ps", "-e", "-o", "pgid=,stat="], capture_output=True, text=True, check=True)
    return any(
        int(line.split()[0]) == group and not line.split()[1].startswith("Z")
        for line in found.stdout.splitlines()
    )


def best(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(folder / "best" / WEIGHTS_FILE, weights_only=True)
    return state


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_resume_continues_at_the_very_step(
    stop: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ("--results-dir", str(tmp_path), "--name")
    output = ended(started(tmp_path, *STEPWISE, *there, "stopped", stops_by=stop), status=130)
    assert re.search(r"\nStopped +the run resumes at epoch 2, batch \d+ of 50\n", output), output
    ended(started(tmp_path, "--resume", str(tmp_path / "stopped")))
    # One that was never stopped, in this process: the first one has prepared its data.
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(tmp_path / "prepared"))
    threads = torch.get_num_threads()
    assert fit.main([*STEPWISE, *there, "whole"]) == 0
    torch.set_num_threads(threads)
    expected = best(tmp_path / "whole")
    for name, tensor in best(tmp_path / "stopped").items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.slow
def test_a_second_ctrl_c_does_not_wait_for_the_end_of_the_epoch(tmp_path: Path) -> None:
    toy = ("tests.faulty.toy", "--epoch-s", "300", "--results-dir", str(tmp_path), "--name", "now")
    process = started(tmp_path, *toy)
    wait_until((tmp_path / "begun").exists)
    interrupt_twice(process)
    assert re.search(r"\nStopped +the run starts again: it has no checkpoint yet", ended(process, status=130))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stop", "start", "persistent", "devices"),
    [
        (signal.SIGINT, "fork", True, 1),
        pytest.param(signal.SIGTERM, "fork", False, 1, marks=pytest.mark.long),
        pytest.param(signal.SIGINT, "forkserver", False, 1, marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, "spawn", True, 1, marks=pytest.mark.long),
        pytest.param(signal.SIGHUP, "forkserver", True, 1, marks=pytest.mark.long),
        pytest.param(signal.SIGINT, "fork", False, 2, marks=pytest.mark.long),
    ],
)
def test_a_stop_of_all_processes_spares_the_workers_of_loaders(
    stop: signal.Signals, start: str, persistent: bool, devices: int, tmp_path: Path
) -> None:
    """It reaches them in a validation, several times."""
    flags = ("--start", start, "--persistent", str(persistent).lower(), "--batch-size", str(devices))
    flags += ("--strategy", "ddp", "--devices", str(devices)) if devices > 1 else ()
    there = ("--max-epochs", "3", "--results-dir", str(tmp_path), "--name", "run")
    process = started(tmp_path, "tests.faulty.loading", *flags, *there, step_s=0.1, stops_by=stop)
    output = ended(process, status=130)
    assert "\nStopped    the run resumes after epoch 1\n" in output, output
    wait_until(lambda: not lives(process.pid))
    resumed = ended(started(tmp_path, "--resume", str(tmp_path / "run")))
    assert "\nBest " in resumed


@pytest.mark.slow
def test_a_ctrl_c_while_loaders_start_ends_the_run_in_order(tmp_path: Path) -> None:
    flags = ("--start-s", "3", "--results-dir", str(tmp_path), "--name", "run")
    process = started(tmp_path, "tests.faulty.loading", *flags)
    wait_until((tmp_path / "starting").exists)
    os.killpg(process.pid, signal.SIGINT)
    assert "\nStopped    the run starts again: " in ended(process, status=130)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_a_second_ctrl_c_ends_workers_of_loaders_that_hang(start: str, tmp_path: Path) -> None:
    flags = ("--start", start, "--hangs", "true", "--results-dir", str(tmp_path), "--name", "hangs")
    process = started(tmp_path, "tests.faulty.loading", *flags)
    wait_until((tmp_path / "third").exists)
    time.sleep(0.5)  # it waits for the next batch by then; a slower one leaves in order
    interrupt_twice(process)
    ended(process, status=130)
    wait_until(lambda: not lives(process.pid))
