"""A real disk that fills up: the sweep pauses before, and loses nothing when it comes too late."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.record.record import Record
from tests.conftest import ROOT, Command, fill_up
from tests.support.killing import check_whole

MB = 10**6
TOY = (
    "--no-baseline",
    *("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes", "--searcher", "random"),
    *(
        "--params",
        "epoch_s=0.5",
        "--num-trials",
        "6",
        "--max-epochs",
        "9",
        "--no-ray-dashboard",
        "--no-preflight",
    ),
)


def begin(environment: dict[str, str], disk: Path, *flags: str) -> subprocess.Popen[bytes]:
    """A sweep on the small disk, with its first epochs reported; it prints into `disk/../output`."""
    arguments = [*TOY, "--results-dir", str(disk), "--name", "sweep", *flags]
    with (disk.parent / "output").open("w") as output:
        driver = subprocess.Popen(
            [sys.executable, "-m", "sweeps.run", *arguments],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    wait_until(lambda: epochs(disk / "sweep") >= 3, driver)
    return driver


def epochs(folder: Path) -> int:
    try:
        return sum(len(trial.epochs) for trial in Record.read(folder).trials)
    except FileNotFoundError:
        return 0


def wait_until(happened: Callable[[], bool], driver: subprocess.Popen[bytes]) -> None:
    for _ in range(1200):
        if happened():
            return
        assert driver.poll() is None, "the sweep ended"
        time.sleep(0.1)
    pytest.fail("it did not happen within two minutes")


@pytest.mark.long
def test_a_sweep_pauses_before_the_disk_is_full_and_goes_on_when_there_is_room(
    environment: dict[str, str], disk_of_100_mb: Path
) -> None:
    disk = disk_of_100_mb
    driver = begin(environment, disk, "--min-free-gb", "0.02", "--checkpoint-epochs", "1")
    others = fill_up(disk, leave=10 * MB)
    said = disk.parent / "output"
    wait_until(lambda: "PAUSED: " in said.read_text(), driver)
    time.sleep(2)  # the epochs that were under way end; the driver does not hear of them
    before = epochs(disk / "sweep")
    time.sleep(3)
    assert epochs(disk / "sweep") == before, "nothing goes on meanwhile"
    assert "20 MB is needed. Free some space" in said.read_text()
    others.unlink()
    assert driver.wait(timeout=120) == 0, said.read_text()
    assert "Continuing: " in said.read_text()
    check_whole(Record.read(disk / "sweep"), 6, [3], max_epochs=9, halving=True)


@pytest.mark.long
def test_ctrl_c_saves_what_was_trained_while_the_disk_is_almost_full(
    environment: dict[str, str], disk_of_100_mb: Path
) -> None:
    disk = disk_of_100_mb
    more = ("--checkpoint-epochs", "100", "--scheduler", "none")
    driver = begin(environment, disk, "--min-free-gb", "0.02", *more)
    fill_up(disk, leave=10 * MB)
    said = disk.parent / "output"
    wait_until(lambda: "PAUSED: " in said.read_text(), driver)
    driver.send_signal(signal.SIGINT)
    assert driver.wait(timeout=50) == 130, said.read_text()
    _, _, after = said.read_text().partition("Ctrl-C ends it")
    assert "Saving what " in after
    assert "PAUSED" not in after
    assert re.search(r"^Unfinished trial \d continues after epoch \d$", after, flags=re.M), after
    assert "is repeated" not in after
    assert list((disk / "sweep" / "checkpoints").glob("trial_*/epoch_*"))


@pytest.mark.long
def test_a_disk_that_is_full_at_once_ends_the_sweep_in_order_and_a_resume_loses_nothing(
    environment: dict[str, str], sweep: Command, disk_of_100_mb: Path
) -> None:
    disk = disk_of_100_mb
    # Nothing is to be kept free, and no checkpoint is about to be written: no reason to pause.
    driver = begin(environment, disk, "--min-free-gb", "0", "--checkpoint-epochs", "100")
    others = fill_up(disk)
    assert driver.wait(timeout=180) == 1
    said = (disk.parent / "output").read_text()
    assert "The sweep stopped: " in said
    assert "No space left on device" in said or "is full" in said
    assert f"sweeps run --resume {disk / 'sweep'}" in said
    assert "Traceback" not in said
    before = {trial.number: trial.epochs for trial in Record.read(disk / "sweep").trials}
    others.unlink()
    done = sweep("--resume", str(disk / "sweep"))
    assert done.returncode == 0, done.stdout + done.stderr
    record = Record.read(disk / "sweep")
    check_whole(record, 6, [3], max_epochs=9, halving=True)
    for number, there in before.items():
        assert {epoch: record.trials[number].epochs[epoch] for epoch in there} == there
