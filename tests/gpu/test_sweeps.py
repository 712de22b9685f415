"""Whole sweeps on one card: shares of it, warm processes, processes and drivers that are killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pynvml
import pytest

from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from tests.conftest import ROOT, Command
from tests.gpu.fits import NEEDS_GPU
from tests.support.killing import check_nothing_is_lost

pytestmark = [*NEEDS_GPU]
DIGITS = ("--trainable", "digits_mlp", "--no-ray-dashboard", "--no-preflight", "--seed", "1")
WHOLE = ("--scheduler", "none", "--searcher", "random")
"""No trial is pruned."""
EQUAL = ("--search-space", "tests.faulty.rates", "--params", "hidden=262144", "batch_size=64")
"""Hyperparameters by which trials are of the same size: 19 M weights."""
TRIALS = 20
SETTLED = 1.01
"""Share of the first trial's peak that the last one may take."""


def named(folder: Path) -> tuple[str, ...]:
    return ("--name", folder.name, "--results-dir", str(folder.parent))


def peaks_gb(record: Record) -> list[float]:
    """The largest GPU memory of each trial, in the order of their numbers."""
    return [max(epoch.costs["gpu_memory_gb"] for epoch in trial.epochs.values()) for trial in record.trials]


def most_at_once(trials: Sequence[TrialRow]) -> int:
    """Trials that trained at the same time."""
    moments = [trial.start for trial in trials]
    return max(sum(trial.start <= moment < (trial.end or 0) for trial in trials) for moment in moments)


@pytest.fixture
def used_bytes() -> Iterator[Callable[[], int]]:
    """Memory of the card that is taken, by whomever."""
    pynvml.nvmlInit()
    card = pynvml.nvmlDeviceGetHandleByIndex(0)
    yield lambda: int(pynvml.nvmlDeviceGetMemoryInfo(card).used)
    pynvml.nvmlShutdown()


def wait_until(is_so: Callable[[], bool], most_s: float = 90) -> None:
    end = time.monotonic() + most_s
    while not is_so():
        assert time.monotonic() < end, "it never became so"
        time.sleep(0.05)


def epochs_of(folder: Path) -> int:
    """Epochs in the record by now."""
    if not (folder / JOURNAL).is_file():
        return 0
    with contextlib.suppress(Exception):  # its first lines are being written
        return sum(len(trial.epochs) for trial in Record.read(folder).trials)
    return 0


def ended(sweep: Command, folder: Path, *arguments: str) -> tuple[str, Record]:
    """What a sweep says, run or resumed to its end, and its record."""
    where = () if "--resume" in arguments else named(folder)
    done = sweep(*arguments, *where)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, Record.read(folder)


@contextlib.contextmanager
def running(folder: Path, environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A sweep in the background, which is ended with the test."""
    command = [sys.executable, "-m", "sweeps.run", *arguments, *named(folder)]
    with (folder.parent / "output").open("wb") as output:
        driver = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield driver
    finally:
        if driver.poll() is None:
            driver.send_signal(signal.SIGINT)
            driver.wait(60)


@pytest.mark.parametrize("strategy", ["single", "deepspeed_stage_2", "fsdp"])
def test_a_warm_process_gives_all_memory_back_between_trials(
    strategy: str, sweep: Command, tmp_path: Path
) -> None:
    trials = TRIALS if strategy == "single" else 6
    words = (*EQUAL, "--strategy", strategy, "--num-trials", str(trials), "--max-epochs", "2")
    _, record = ended(sweep, tmp_path / "s", *DIGITS, *WHOLE, *words)
    assert [trial.status for trial in record.trials] == ["finished"] * trials
    assert len({trial.place["pid"] for trial in record.trials}) == 1
    took = peaks_gb(record)
    assert max(took) <= SETTLED * took[0], took


@pytest.mark.parametrize("shared_by", [2, 4])
def test_trials_share_the_card(shared_by: int, sweep: Command, tmp_path: Path) -> None:
    words = ("--trials-per-gpu", str(shared_by), "--num-trials", str(2 * shared_by), "--max-epochs", "60")
    _, record = ended(sweep, tmp_path / "s", *DIGITS, *WHOLE, *words)
    assert {trial.status for trial in record.trials} == {"finished"}
    assert most_at_once(record.trials) == shared_by
    assert len({trial.place["pid"] for trial in record.trials}) == shared_by


def test_auto_decides_by_what_the_first_trial_took(sweep: Command, tmp_path: Path) -> None:
    words = ("--trials-per-gpu", "auto", "--gpu-memory-gb-per-trial", "8", "--num-trials", "8")
    said, record = ended(sweep, tmp_path / "s", *DIGITS, *WHOLE, *words, "--max-epochs", "60")
    assert "free on a GPU: " in said
    assert {trial.status for trial in record.trials} == {"finished"}
    assert most_at_once(record.trials) > 1


@pytest.mark.parametrize(("searcher", "scheduler"), [("tpe", "asha"), ("bohb", "bohb")])
def test_a_sweep_in_fp16_goes_on_after_kill_9(
    searcher: str, scheduler: str, sweep: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "s"
    words = ("--searcher", searcher, "--scheduler", scheduler, "--precision", "16-mixed")
    with running(folder, environment, *DIGITS, *words, "--num-trials", "9", "--max-epochs", "9") as driver:
        wait_until(lambda: epochs_of(folder) >= 8)
        driver.kill()
        driver.wait(30)
    before = check_nothing_is_lost(folder, {})
    _, record = ended(sweep, folder, "--resume", str(folder))
    check_nothing_is_lost(folder, before)
    assert len(record.trials) == 9
    assert {trial.status for trial in record.trials} <= {"finished", "pruned"}


def test_a_process_that_is_killed_leaves_the_card_free(
    environment: dict[str, str], tmp_path: Path, used_bytes: Callable[[], int]
) -> None:
    before, folder = used_bytes(), tmp_path / "s"
    words = (*DIGITS, *WHOLE, "--num-trials", "2", "--max-epochs", "40")
    with running(folder, environment, *words) as driver:
        wait_until(lambda: epochs_of(folder) >= 3)
        assert used_bytes() > before + 200 * 2**20, "the trial holds CUDA memory"
        os.kill(Record.read(folder).trials[0].place["pid"], signal.SIGKILL)
        assert driver.wait(180) == 0, (tmp_path / "output").read_text()
    assert "SIGKILL" in (tmp_path / "output").read_text()
    assert {trial.status for trial in Record.read(folder).trials} == {"finished"}
    wait_until(lambda: used_bytes() < before + 50 * 2**20)


def test_a_kernel_that_fails_costs_its_trial_alone(sweep: Command, tmp_path: Path) -> None:
    """CUDA fails in the rest of that process: the next trial has another one."""
    grid = ("--search-space", "tests.faulty.shifts", "--searcher", "grid", "--max-epochs", "3")
    words = (
        "--no-baseline",
        "--trainable",
        "tests.faulty.mislabelled",
        *DIGITS[2:],
        "--scheduler",
        "none",
        *grid,
    )
    _, record = ended(sweep, tmp_path / "s", *words)
    broken, whole = record.trials
    assert (broken.status, list(broken.epochs)) == ("failed", [1])
    assert "assert" in (tmp_path / "s" / "logs" / "trial_0000.log").read_text()
    assert (whole.status, list(whole.epochs)) == ("finished", [1, 2, 3])
    assert broken.place["pid"] != whole.place["pid"]


def test_ctrl_c_leaves_the_card_free_and_a_sweep_that_goes_on(
    environment: dict[str, str], sweep: Command, tmp_path: Path, used_bytes: Callable[[], int]
) -> None:
    before, folder = used_bytes(), tmp_path / "s"
    words = (*DIGITS, *WHOLE, "--num-trials", "2", "--max-epochs", "60")
    with running(folder, environment, *words) as driver:
        wait_until(lambda: epochs_of(folder) >= 3)
        driver.send_signal(signal.SIGINT)
        assert driver.wait(90) == 130
    wait_until(lambda: used_bytes() < before + 50 * 2**20)
    seen = check_nothing_is_lost(folder, {})
    _, record = ended(sweep, folder, "--resume", str(folder))
    check_nothing_is_lost(folder, seen)
    assert {trial.status for trial in record.trials} == {"finished"}


def test_gpu_util_and_data_wait_are_columns_of_a_sweep(sweep: Command, tmp_path: Path) -> None:
    words = ("--trainable", "fashion_cnn", "--params", "rows=0", "--num-trials", "2", "--max-epochs", "2")
    ended(sweep, tmp_path / "s", *words, "--no-ray-dashboard", "--no-preflight")
    table = pq.read_table(tmp_path / "s" / "epochs.parquet").to_pydict()
    assert len(table["id"]) >= 2
    assert all(0 <= value <= 100 for value in table["data_wait_pct"])
    assert any(value is not None and 0 < value <= 100 for value in table["gpu_util_pct"])
    assert all(value > 0 for value in table["gpu_memory_gb"])
