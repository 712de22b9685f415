"""Trials that go wrong: each is a row with its reason, and the sweep goes on."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from tests.conftest import ROOT, Command, told
from tests.faulty import toy
from tests.faulty.spoiling import REASON

TOY = (
    "--no-baseline",
    "--trainable",
    "tests.faulty.toy",
    "--no-ray-dashboard",
    "--no-preflight",
    "--searcher",
    "grid",
    "--scheduler",
    "none",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results") / "faults"


@pytest.fixture(scope="module")
def output(sweep: Command, folder: Path) -> str:
    """What a sweep with every fault in it says, that retries a trial which raised once."""
    done = sweep(
        *TOY,
        *("--search-space", "tests.faulty.toy_space", "--max-epochs", "4", "--max-failures", "1"),
        *("--checkpoint-epochs", "1"),
        *("--name", folder.name, "--results-dir", str(folder.parent), "--max-concurrent", "1"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "raylet" not in done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def by_fault(output: str, folder: Path) -> dict[str, TrialRow]:
    return {str(trial.params["fault"]): trial for trial in Record.read(folder).trials}


def test_a_trial_that_raises_is_a_row_with_its_first_line_and_its_log(
    by_fault: dict[str, TrialRow], folder: Path, attempts: Path
) -> None:
    trial = by_fault["raises"]
    assert (trial.status, trial.reason) == ("failed", "RuntimeError: the toy broke")
    assert "and said so on two lines" in (folder / str(trial.log)).read_text()
    assert toy.attempts(attempts, "raises") == 2, "tried again once, as --max-failures says"
    assert trial.notices == ["RuntimeError: the toy broke (failure 1 of at most 1, it is retried)"]
    assert trial.failures == 2
    assert list(trial.epochs) == [1], "an epoch trained again is not reported again"


def test_sys_exit_in_a_trial_fails_that_trial_only(by_fault: dict[str, TrialRow]) -> None:
    assert (by_fault["exits"].status, by_fault["exits"].reason) == ("failed", "SystemExit: 3")


def test_a_process_lives_on_after_a_trial_raised(by_fault: dict[str, TrialRow]) -> None:
    faults = ("none", "raises", "flaky", "exits", "diverges", "stops", "cannot_save", "mute")
    assert len({by_fault[fault].place["pid"] for fault in faults}) == 1


def test_training_that_ends_by_itself_is_finished(by_fault: dict[str, TrialRow]) -> None:
    trial = by_fault["stops"]
    assert (trial.status, trial.reason) == ("finished", "ended by itself after epoch 2")
    assert list(trial.epochs) == [1, 2]


def test_an_error_while_saving_is_an_error_of_the_trial(
    by_fault: dict[str, TrialRow], attempts: Path
) -> None:
    trial = by_fault["cannot_save"]
    assert (trial.status, trial.reason) == ("failed", "OSError: disk quota exceeded")
    assert toy.attempts(attempts, "cannot_save") == 2


def test_one_trial_without_the_metric_does_not_end_a_sweep(by_fault: dict[str, TrialRow]) -> None:
    trial = by_fault["mute"]
    assert trial.status == "failed"
    assert "metric 'score' was not logged; logged: other" in trial.reason


@pytest.mark.parametrize("fault", ["killed", "killed_in_save", "killed_at_end"])
def test_a_lost_process_is_retried_without_counting(
    fault: str, by_fault: dict[str, TrialRow], attempts: Path
) -> None:
    """In an epoch, while saving, and in the teardown, when Tune has begun the next trial there."""
    assert by_fault[fault].status == "finished"
    assert list(by_fault[fault].epochs) == [1, 2, 3, 4]
    assert toy.attempts(attempts, fault) == (1 if fault == "killed_at_end" else 2)


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("kills", "it ended without a trace (most often signal 9, SIGKILL)"),
        ("crashes", "Fatal Python error: Segmentation fault"),
        ("leaves", "exit status 3"),
    ],
)
def test_a_trial_that_ends_its_process_twice_in_the_same_way_has_failed(
    fault: str, why: str, by_fault: dict[str, TrialRow], attempts: Path, output: str, folder: Path
) -> None:
    trial = by_fault[fault]
    assert (trial.status, list(trial.epochs)) == ("failed", [1])
    assert trial.reason == f"its process ended 2 times in the same epoch: {why}"
    assert toy.attempts(attempts, fault) == 2
    told = f"Trial {trial.number} lost its process on {platform.node()}: {why}; it %s (fault={fault})"
    lines = [line for line in output.splitlines() if f"Trial {trial.number} lost its process" in line]
    assert lines == [told % "is requeued and continues after epoch 1", told % "has failed"]
    if fault == "crashes":
        assert "Fatal Python error: Segmentation fault" in (folder / str(trial.log)).read_text()
    if fault == "leaves":
        assert (folder / str(trial.log)).read_text().count("the toy leaves") == 2


def test_a_trial_that_raises_once_finishes_with_every_epoch_once(
    by_fault: dict[str, TrialRow], attempts: Path
) -> None:
    assert (by_fault["flaky"].status, by_fault["flaky"].failures) == ("finished", 1)
    assert list(by_fault["flaky"].epochs) == [1, 2, 3, 4]
    assert toy.attempts(attempts, "flaky") == 2


def test_a_metric_that_is_not_finite_ends_the_trial_at_once_and_is_not_retried(
    by_fault: dict[str, TrialRow], attempts: Path
) -> None:
    trial = by_fault["diverges"]
    assert (trial.status, trial.reason) == ("diverged", "score was nan in epoch 2")
    assert list(trial.epochs) == [1, 2]
    assert toy.attempts(attempts, "diverges") == 1


def test_the_last_lines_count_failed_and_diverged_trials_and_name_a_log(output: str, folder: Path) -> None:
    (failed,) = [line for line in output.splitlines() if line.startswith("Failed ")]
    assert failed.startswith("Failed     7 trials. Most common reason: ")
    assert Path(failed.rpartition("; ")[2]).is_file()
    assert "\nDiverged   1 trial. Most common reason: score was nan in epoch 2" in output


def test_failed_trials_are_rows_of_the_table(by_fault: dict[str, TrialRow], folder: Path) -> None:
    rows = pq.read_table(folder / "trials.parquet").to_pylist()
    assert [row["status"] for row in rows] == [trial.status for trial in by_fault.values()]


def test_the_winner_alone_was_tested(by_fault: dict[str, TrialRow], attempts: Path) -> None:
    assert len(by_fault) == 14
    tested = (attempts / "tested").read_text().splitlines()
    assert len(set(tested)) == 1
    assert toy.attempts(attempts, "tested") == 2, "two batches of one test"


@pytest.mark.long
def test_of_two_equals_the_first_wins_and_its_weights_are_there(sweep: Command, tmp_path: Path) -> None:
    """The one that ends later is the better one here: it has the lower number."""
    done = sweep(*TOY, *("--search-space", "tests.faulty.tie", "--max-epochs", "3"), *_into(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Best       trial 0: score 3 in epoch 3" in done.stdout
    assert (tmp_path / "sweep" / "best" / "weights.pt").is_file()
    assert told(tmp_path)["SWEEP_TEXT"] == "sweep: finished; best score 3 (trial 0, epoch 3)"
    assert told(tmp_path)["SWEEP_STATUS"] == "0"


@pytest.mark.long
def test_a_winner_that_cannot_be_tested_is_still_the_winner(sweep: Command, tmp_path: Path) -> None:
    done = sweep(
        *TOY,
        *("--search-space", "tests.faulty.one", "--params", "fault=cannot_test", "--max-epochs", "2"),
        *_into(tmp_path),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The winner could not be tested: RuntimeError: no test today" in done.stdout
    assert "Best       trial 0" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.long
def test_when_all_fail_the_commonest_reason_is_said(sweep: Command, tmp_path: Path) -> None:
    done = sweep(
        *TOY,
        *("--search-space", "tests.faulty.always_raises", "--max-epochs", "2"),
        *("--results-dir", str(tmp_path), "--name", "all"),
        *("--notify-command", 'echo "no mail: $SWEEP_TEXT, $SWEEP_STATUS"; exit 3'),
    )
    assert done.returncode == 1
    said = ["no mail: all: finished; no trial ended well, 1", "--notify-command failed: exit status 3"]
    assert done.stdout.splitlines()[-2:] == said
    assert "No trial succeeded: 2 ended. Most common reason: " in done.stdout
    assert "logs/trial_000" in done.stdout
    assert "Traceback (most recent call last)" not in done.stdout + done.stderr


@pytest.mark.long
def test_a_sweep_whose_first_trials_fail_alike_stops_and_can_be_told_to_go_on(
    sweep: Command, tmp_path: Path
) -> None:
    asked = ("--no-baseline", "--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.all_raise")
    asked += ("--searcher", "random", "--scheduler", "none", "--num-trials", "6", "--max-epochs", "3")
    done = sweep(*asked, "--no-ray-dashboard", "--no-preflight", "--max-concurrent", "1", *_into(tmp_path))
    assert done.returncode == 1
    said = (
        "The sweep stopped: the first 3 trials all failed: RuntimeError: the toy broke. Add --keep-going to"
    )
    assert said in done.stdout
    assert (
        "No trial succeeded: 3 ended. Most common reason: RuntimeError: the toy broke (3 times)"
        in done.stdout
    )
    assert "logs/trial_0000.log" in done.stdout
    done = sweep("--resume", str(tmp_path / "sweep"), "--keep-going", "--no-ray-dashboard", "--no-preflight")
    assert done.returncode == 1
    assert "No trial succeeded: 6 ended." in done.stdout


@pytest.mark.long
def test_what_still_trains_is_saved_when_the_first_trials_failed_alike(
    sweep: Command, tmp_path: Path
) -> None:
    asked = ("--no-baseline", "--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.some_raise")
    asked += ("--searcher", "random", "--scheduler", "none", "--num-trials", "9", "--max-epochs", "9")
    asked += ("--max-concurrent", "2", "--try", "fault=none", "epoch_s=15", "slope=0.5")
    for slope in (0.1, 0.2, 0.3):
        asked += ("--try", "fault=raises", "epoch_s=0", f"slope={slope}")
    done = sweep(*asked, "--no-ray-dashboard", "--no-preflight", *_into(tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    stopping = "Stopping: the first 3 trials all failed: RuntimeError: the toy broke"
    assert stopping in done.stdout
    assert "Saving what 1 trial trained" in done.stdout
    assert "The sweep stopped: the first 3 trials all failed: " in done.stdout
    assert "Unfinished trial 0 continues after epoch 1\n" in done.stdout
    assert Record.read(tmp_path / "sweep").trials[0].position == "the end of epoch 1"


@pytest.mark.long
def test_a_metric_that_is_never_logged_ends_the_sweep_and_names_those_that_are(
    sweep: Command, tmp_path: Path
) -> None:
    asked = ("--search-space", "tests.faulty.one", "--metric", "scoer", "--mode", "max")
    done = sweep(*TOY, *asked, *("--max-concurrent", "1"), *_into(tmp_path))
    assert done.returncode == 2
    assert "metric 'scoer' was not logged; logged: other, score" in done.stderr
    assert "Did you mean 'score'?\nNothing was trained. Repair the code, and resume: " in done.stderr
    assert "sweep --retry failed\n" in done.stderr
    assert " --name sweep-again\n" in done.stderr, "for another metric"
    assert (told(tmp_path)["SWEEP_OUTCOME"], told(tmp_path)["SWEEP_STATUS"]) == ("error", "2")
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.long
def test_the_time_budget_ends_the_sweep_with_what_it_has(sweep: Command, tmp_path: Path) -> None:
    done = sweep(
        "--no-baseline",
        *("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes", "--searcher", "random"),
        *("--params", "epoch_s=0.2", "--num-trials", "5000", "--time-budget-hours", "0.015"),
        *("--no-ray-dashboard", "--no-preflight", *_into(tmp_path)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The sweep reached --time-budget-hours; " in done.stdout
    assert told(tmp_path)["SWEEP_OUTCOME"] == "out of time"
    record = Record.read(tmp_path / "sweep")
    assert record.best() is not None
    assert 0 < len(record.trials) < 5000


@pytest.mark.long
def test_a_pc_without_lightning_ends_the_sweep_and_names_it(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """A virtual environment that holds the packages of this one, except Lightning."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    (packages,) = (tmp_path / "venv").glob("lib/*/site-packages")
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if "lightning" not in package.name:
            (packages / package.name).symlink_to(package)
    done = subprocess.run(
        [
            *(tmp_path / "venv" / "bin" / "python", "-m", "sweeps.run", "--trainable", "digits_mlp"),
            *("--searcher", "random", "--scheduler", "none", "--num-trials", "2", "--max-epochs", "2"),
            *("--max-concurrent", "1", "--no-ray-dashboard", "--no-preflight", *_into(tmp_path)),
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "trial 0 can't continue on " in done.stdout
    assert "No module named 'lightning'" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("max_failures", [0, 1])
def test_no_trial_pays_for_a_gpu_that_another_one_has_spoilt(
    max_failures: int, sweep: Command, tmp_path: Path
) -> None:
    """The last of three is given the processes that both others have spoilt, or waits for new ones."""
    toys = (
        "--no-baseline",
        "--trainable",
        "tests.faulty.spoiling",
        "--search-space",
        "tests.faulty.spoiling_grid",
        *TOY[3:],
    )
    limits = ("--max-epochs", "3", "--max-failures", str(max_failures), "--max-concurrent", "2")
    done = sweep(*toys, *limits, *_into(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    *spoiling, whole = Record.read(tmp_path / "sweep").trials
    assert {(each.status, each.reason) for each in spoiling} == {("failed", f"RuntimeError: {REASON}")}
    assert {each.failures for each in spoiling} == {max_failures + 1}
    assert (whole.status, list(whole.epochs), whole.failures) == ("finished", [1, 2, 3], 0)


@pytest.mark.long
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_a_whole_record(
    stop: signal.Signals, environment: dict[str, str], tmp_path: Path
) -> None:
    """As Ctrl-C does, at the end of the tests of the queue."""
    arguments = [
        "--no-baseline",
        *("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes", "--searcher", "random"),
        *(
            "--params",
            "epoch_s=0.2",
            "--num-trials",
            "5000",
            "--no-ray-dashboard",
            "--no-preflight",
            *_into(tmp_path),
        ),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "sweeps.run", *arguments],
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        _wait_for_epochs(tmp_path / "sweep", 5)
        os.killpg(process.pid, stop)  # as `timeout` does, a terminal that is closed, and batch systems
        output, _ = process.communicate(timeout=90)
    finally:
        process.kill()
    assert process.returncode == 130, output
    assert "The sweep was interrupted; " in output
    assert (told(tmp_path)["SWEEP_OUTCOME"], told(tmp_path)["SWEEP_STATUS"]) == ("interrupted", "130")
    assert "Traceback" not in output
    record = Record.read(tmp_path / "sweep")
    rows = pq.read_table(tmp_path / "sweep" / "trials.parquet").to_pylist()
    assert [row["status"] for row in rows] == [trial.status for trial in record.trials]
    assert "unfinished" in {row["status"] for row in rows}
    assert sum(row["epochs"] for row in rows) >= 5


def _into(folder: Path) -> tuple[str, ...]:
    """A sweep in this folder, at whose end `told` knows what its command was told."""
    command = f"env | grep ^SWEEP_ > {folder / 'told'}"
    return ("--results-dir", str(folder), "--name", "sweep", "--notify-command", command)


def _wait_for_epochs(folder: Path, count: int) -> None:
    for _ in range(900):
        try:
            record = Record.read(folder)
        except FileNotFoundError:
            record = None
        if record and sum(len(trial.epochs) for trial in record.trials) >= count:
            return
        time.sleep(0.1)
    pytest.fail(f"the sweep did not report {count} epochs")
