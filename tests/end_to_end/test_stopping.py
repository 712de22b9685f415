"""A sweep that is stopped inside an epoch trains no step twice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from sweeps.analysis import sweep as analysis_sweep
from sweeps.common.yaml_values import load_yaml
from sweeps.kinds.params_file import WEIGHTS_FILE
from sweeps.record.record import Record
from sweeps.storage.open import open_storage_of
from tests.conftest import ROOT, TOY
from tests.support.reports import words_of

STEPS = 50
"""Of an epoch."""


class Runs:
    """Sweeps of two trials, and whoever stops them."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self._environment = environment | {"SWEEPS_PREPARED_DIR": str(folder / "prepared")}
        self.folder = folder

    def start(self, step_s: float, *arguments: str, name: str = "") -> subprocess.Popen[str]:
        if name:
            arguments = (*arguments, "--results-dir", str(self.folder), "--name", name)
        return subprocess.Popen(
            [sys.executable, "-m", "sweeps.run", *arguments, "--no-ray-dashboard", "--no-preflight"],
            cwd=ROOT,
            env=self._environment | {"STEP_S": str(step_s)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def whole(self, *arguments: str, name: str = "") -> str:
        """A sweep to its end; what it prints."""
        done = self.start(0.0, *arguments, name=name)
        output, _ = done.communicate(timeout=180)
        assert done.returncode == 0, output
        return output

    def record(self, name: str) -> Record:
        return Record.read(self.folder / name)

    def best(self, name: str) -> dict[str, torch.Tensor]:
        state: dict[str, torch.Tensor] = torch.load(self.folder / name / "best" / WEIGHTS_FILE)
        return state

    def wait_for_epoch(self, name: str, epochs: int) -> None:
        """Wait until each trial has reported so many epochs."""
        for _ in range(900):
            try:
                trials = self.record(name).trials
            except FileNotFoundError:
                trials = []
            if len(trials) == 2 and all(len(trial.epochs) >= epochs for trial in trials):
                return
            time.sleep(0.1)
        pytest.fail(f"the sweep did not report {epochs} epochs")


def sigterm_to_all(process: subprocess.Popen[str]) -> None:
    """Send SIGTERM to a sweep and to all processes that train. Each process of Ray's is in a process group of
    its own; without its daemons nothing can be saved."""
    below = psutil.Process(process.pid).children(recursive=True)
    training = [each for each in below if each.name().startswith(("ray::ResourceTrainable", "ray::Member"))]
    assert training
    for each in (process, *training):
        each.send_signal(signal.SIGTERM)


def epochs_of(record: Record) -> list[dict[int, Any]]:
    return [{epoch: dict(row.metrics) for epoch, row in t.epochs.items()} for t in record.trials]


TWO = (
    *("--searcher", "random", "--scheduler", "none", "--num-trials", "2"),
    *("--max-epochs", "3"),
)


@pytest.mark.long
def test_a_resume_continues_at_the_very_step(environment: dict[str, str], tmp_path: Path) -> None:
    """SIGTERM reaches the processes of its trials too: a system that shuts down sends it to every process."""
    runs = Runs(environment, tmp_path)
    runs.whole("--no-baseline", "--trainable", "tests.faulty.stepwise", *TWO, name="whole")
    process = runs.start(0.1, "--no-baseline", "--trainable", "tests.faulty.stepwise", *TWO, name="stopped")
    runs.wait_for_epoch("stopped", 1)
    sigterm_to_all(process)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    places = re.findall(r"Unfinished trial \d continues at epoch 2, batch (\d+) of 50\n", output)
    assert len(places) == 2, output
    assert all(0 < int(batch) < STEPS for batch in places)
    assert "Traceback" not in output
    first = {trial.place["pid"] for trial in runs.record("stopped").trials}

    output = runs.whole("--resume", str(tmp_path / "stopped"))
    trials = runs.record("stopped").trials
    assert {trial.place_of(1)["pid"] for trial in trials} == first
    assert not first & {trial.place_of(epoch)["pid"] for trial in trials for epoch in (2, 3)}
    assert re.findall(r"  trial \d continues at epoch 2, batch (\d+) of 50\n", output) == places
    assert epochs_of(runs.record("stopped")) == epochs_of(runs.record("whole"))
    expected = runs.best("whole")
    for name, tensor in runs.best("stopped").items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.long
def test_a_process_that_the_system_ends_costs_its_trial_no_more_than_the_way_to_its_checkpoint(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """`kill`, and programs that free memory early, send SIGTERM to a single process."""
    runs = Runs(environment, tmp_path)
    runs.whole("--no-baseline", "--trainable", "tests.faulty.stepwise", *TWO, name="whole")
    process = runs.start(0.03, "--no-baseline", "--trainable", "tests.faulty.stepwise", *TWO, name="ended")
    runs.wait_for_epoch("ended", 1)
    os.kill(runs.record("ended").trials[0].place["pid"], signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "Failed" not in output
    assert epochs_of(runs.record("ended")) == epochs_of(runs.record("whole"))
    expected = runs.best("whole")
    for name, tensor in runs.best("ended").items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.long
def test_several_workers_leave_together_at_the_next_step(environment: dict[str, str], tmp_path: Path) -> None:
    """Ten of their steps last half a minute."""
    begun = tmp_path / "begun"
    runs = Runs({**environment, "BEGUN": str(begun)}, tmp_path)
    one = ("--no-baseline", "--trainable", "tests.faulty.stepwise", *TWO, "--num-trials", "1")
    process = runs.start(3, *one, "--workers-per-trial", "2", "--strategy", "ddp", name="two")
    while not begun.exists():
        assert process.poll() is None
        time.sleep(0.1)
    sigterm_to_all(process)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert re.search(r"Unfinished trial 0 continues at epoch 1, batch [1-9] of 50\n", output), output


@pytest.mark.long
def test_a_trial_that_the_end_of_the_time_cuts_short_may_be_the_best(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """One trial ends by itself after two epochs, the other one would train for long. Its weights are those
    that are kept, told and offered."""
    runs, notified = Runs(environment, tmp_path), tmp_path / "notified"
    toy = ("--no-baseline", "--trainable", "tests.faulty.toy", "--searcher", "grid", "--scheduler", "none")
    toy = (*toy, "--ranges", "fault=stops,none", "--params", "epoch_s=0.05", "--max-epochs", "100000")
    until = ("--time-budget-hours", "0.0015", "--notify-command", f'echo "$SWEEP_TEXT" > {notified}')
    process = runs.start(0.0, *toy, *until, name="cut")
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, output
    record = runs.record("cut")
    ended, cut = record.trials if record.trials[1].status == "unfinished" else reversed(record.trials)
    assert (ended.status, cut.status) == ("finished", "unfinished"), output
    epoch = cut.best_epoch(record.objective)
    best = f"Best       trial {cut.number} (unfinished): score {epoch} in epoch {epoch}\n"
    assert best in output
    assert "Retrain " in output
    params = load_yaml((tmp_path / "cut" / "best" / "params.yaml").read_text())
    assert (params["trial"], params["epoch"], params["score"]) == (cut.number, epoch, epoch)
    newest, _ = open_storage_of(tmp_path / "cut").newest(cut.number, {**cut.fixed, **cut.params})
    assert newest is not None
    assert runs.best("cut") == torch.load(newest / WEIGHTS_FILE)
    so_far = f"best score {epoch} (trial {cut.number}, epoch {epoch}, unfinished)"
    assert notified.read_text() == f"cut: out of time; {so_far}\n"
    found = analysis_sweep.load(tmp_path / "cut").best()
    assert found is not None
    assert (found.number, found.status) == (cut.number, "unfinished")
    page = words_of((tmp_path / "cut" / "report.html").read_text())
    assert f"Trial {cut.number} is the best so far (unfinished): score {epoch} in epoch {epoch}" in page


@pytest.mark.long
def test_the_end_of_the_time_saves_what_was_trained(environment: dict[str, str], tmp_path: Path) -> None:
    runs = Runs(environment, tmp_path)
    hours = str(9 / 3600)
    process = runs.start(
        0.2,
        "--no-baseline",
        "--trainable",
        "tests.faulty.stepwise",
        *TWO,
        "--time-budget-hours",
        hours,
        name="late",
    )
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1, output
    assert "No trial has a score: none has ended its first epoch.\n" in output
    assert "The sweep reached --time-budget-hours" in output
    assert len(re.findall(r"Unfinished trial \d continues at epoch 1, batch \d+ of 50\n", output)) == 2


@pytest.mark.long
def test_data_without_a_position_gets_the_grace_to_end_its_epoch(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """One trial of half a second an epoch, and of one that outlasts the grace."""
    runs = Runs(environment, tmp_path)
    toy = ("--no-baseline", "--trainable", "tests.faulty.toy", *TWO, "--max-epochs", "100")
    toy = (*toy, "--search-space", "tests.faulty.slopes")
    for epoch_s, grace_s, then in (
        ("0.5", "30", r"continues after epoch \d+\n"),
        ("8", "1", r"starts from its first epoch \(1 epoch is trained again\); .* of epoch 2 is repeated\n"),
    ):
        name = f"grace-{grace_s}"
        more = ("--params", f"epoch_s={epoch_s}", "--stop-grace", grace_s)
        process = runs.start(0.0, *toy, *more, name=name)
        runs.wait_for_epoch(name, 1)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 130, output
        assert len(re.findall(rf"Unfinished trial \d {then}", output)) == 2, output


@pytest.mark.long
def test_a_second_ctrl_c_does_not_wait_for_the_grace(environment: dict[str, str], tmp_path: Path) -> None:
    runs = Runs(environment, tmp_path)
    process = runs.start(
        0.0,
        "--no-baseline",
        *("--trainable", "tests.faulty.toy", *TWO, "--params", "epoch_s=300"),
        *("--search-space", "tests.faulty.slopes", "--stop-grace", "300"),
        name="now",
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "2 training" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    for line in process.stdout:
        if line.startswith("Saving what 2 trials trained, for at most 5 min"):
            break
    time.sleep(1.1)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "Traceback" not in output


@pytest.mark.long
def test_a_sweep_ends_where_its_target_is_reached(environment: dict[str, str], tmp_path: Path) -> None:
    runs = Runs(environment, tmp_path)
    toy = (
        *TOY,
        "--max-epochs",
        "12",
    )
    limit = ("--params", "epoch_s=0.2", "--max-concurrent", "2", "--num-trials", "9", "--target", "0.05")
    said = runs.whole(*toy, *limit, "--confirm", "1", "--confirm-top", "1", name="t")
    record = runs.record("t")
    assert len(record.searched) == 2
    assert {trial.status for trial in record.searched} == {"stopped"}
    assert {trial.reason for trial in record.searched} == {"stopped by --target 0.05"}
    (rerun,) = [trial for trial in record.trials if trial.confirms is not None]
    assert len(rerun.epochs) == 12, "the confirmation trains to the end"
    assert re.search(r"Enough +--target 0\.05: \w+ [\d.]+ \(trial \d, epoch \d+\) reaches it", said)
    more = runs.whole("--resume", str(tmp_path / "t"), "--num-trials", "3", "--target", "99")
    assert "Resuming t: 2 trials ended, 0 unfinished, 1 to come" in more
