"""Whole sweeps on one card: shares of it, warm processes, processes and drivers that are killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
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


def most_at_once(trials: list[TrialRow]) -> int:
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
    done = sweep(
        *(*DIGITS, *EQUAL, "--strategy", strategy, "--num-trials", str(trials), "--max-epochs", "2"),
        *("--scheduler", "none", "--searcher", "random", *named(tmp_path / "s")),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = Record.read(tmp_path / "s")
    assert [trial.status for trial in record.trials] == ["finished"] * trials
    assert len({trial.place["pid"] for trial in record.trials}) == 1
    took = peaks_gb(record)
    assert max(took) <= SETTLED * took[0], took


@pytest.mark.parametrize("shared_by", [2, 4])
def test_trials_share_the_card(shared_by: int, sweep: Command, tmp_path: Path) -> None:
    done = sweep(
        *(*DIGITS, "--trials-per-gpu", str(shared_by), "--num-trials", str(2 * shared_by)),
        *("--max-epochs", "60", "--scheduler", "none", "--searcher", "random", *named(tmp_path / "s")),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    trials = list(Record.read(tmp_path / "s").trials)
    assert {trial.status for trial in trials} == {"finished"}
    assert most_at_once(trials) == shared_by
    assert len({trial.place["pid"] for trial in trials}) == shared_by


def test_auto_decides_by_what_the_first_trial_took(sweep: Command, tmp_path: Path) -> None:
    done = sweep(
        *(*DIGITS, "--trials-per-gpu", "auto", "--gpu-memory-gb-per-trial", "8", "--num-trials", "8"),
        *("--max-epochs", "60", "--scheduler", "none", "--searcher", "random", *named(tmp_path / "s")),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "of a GPU: " in done.stdout
    trials = list(Record.read(tmp_path / "s").trials)
    assert {trial.status for trial in trials} == {"finished"}
    assert most_at_once(trials) > 1


@pytest.mark.parametrize(("searcher", "scheduler"), [("tpe", "asha"), ("bohb", "bohb"), ("gp", "halving")])
def test_a_sweep_in_fp16_goes_on_after_kill_9(
    searcher: str, scheduler: str, sweep: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "s"
    words = (
        *DIGITS,
        "--searcher",
        searcher,
        "--scheduler",
        scheduler,
        "--num-trials",
        "9",
        "--max-epochs",
        "9",
    )
    with running(folder, environment, *words) as driver:
        wait_until(lambda: epochs_of(folder) >= 8)
        driver.kill()
        driver.wait(30)
    before = check_nothing_is_lost(folder, {})
    done = sweep("--resume", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    check_nothing_is_lost(folder, before)
    trials = list(Record.read(folder).trials)
    assert len(trials) == 9
    assert {trial.status for trial in trials} <= {"finished", "pruned"}
    assert "fp16" in done.stdout or "16-mixed" in (folder / "best" / "params.yaml").read_text()


def test_a_process_that_is_killed_leaves_the_card_free(
    environment: dict[str, str], tmp_path: Path, used_bytes: Callable[[], int]
) -> None:
    before, folder = used_bytes(), tmp_path / "s"
    words = (
        *DIGITS,
        "--num-trials",
        "2",
        "--max-epochs",
        "40",
        "--scheduler",
        "none",
        "--searcher",
        "random",
    )
    with running(folder, environment, *words) as driver:
        wait_until(lambda: epochs_of(folder) >= 3)
        assert used_bytes() > before + 200 * 2**20, "the trial holds CUDA memory"
        os.kill(Record.read(folder).trials[0].place["pid"], signal.SIGKILL)
        assert driver.wait(180) == 0, (tmp_path / "output").read_text()
    output = (tmp_path / "output").read_text()
    assert "SIGKILL" in output
    assert {trial.status for trial in Record.read(folder).trials} == {"finished"}
    wait_until(lambda: used_bytes() < before + 50 * 2**20)


def test_ctrl_c_frees_the_card_and_the_resume_repeats_at_most_a_step(
    environment: dict[str, str], sweep: Command, tmp_path: Path, used_bytes: Callable[[], int]
) -> None:
    before, folder = used_bytes(), tmp_path / "s"
    words = (
        *DIGITS,
        "--num-trials",
        "2",
        "--max-epochs",
        "60",
        "--scheduler",
        "none",
        "--searcher",
        "random",
    )
    with running(folder, environment, *words) as driver:
        wait_until(lambda: epochs_of(folder) >= 3)
        driver.send_signal(signal.SIGINT)
        driver.wait(90)
    assert not [child for child in psutil.Process().children(recursive=True) if child.pid == driver.pid]
    wait_until(lambda: used_bytes() < before + 50 * 2**20)
    seen = check_nothing_is_lost(folder, {})
    done = sweep("--resume", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    check_nothing_is_lost(folder, seen)


def test_gpu_util_and_data_wait_are_columns_of_a_sweep(sweep: Command, tmp_path: Path) -> None:
    done = sweep(
        *(
            "--trainable",
            "fashion_cnn",
            "--params",
            "rows=0",
            "--no-ray-dashboard",
            "--no-preflight",
            "--num-trials",
            "2",
        ),
        *("--max-epochs", "2", *named(tmp_path / "s")),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    table = pq.read_table(tmp_path / "s" / "epochs.parquet").to_pydict()
    assert len(table["id"]) >= 2
    assert all(0 <= value <= 100 for value in table["data_wait_pct"])
    assert any(value is not None and 0 < value <= 100 for value in table["gpu_util_pct"])
    assert all(value > 0 for value in table["gpu_memory_gb"])
