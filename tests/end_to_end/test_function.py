"""A function that trains is swept, killed, resumed and trained again as a LightningModule is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, Command
from tests.end_to_end.test_resume import check_same_when_killed

SWEEP = (
    "--no-baseline",
    *("--trainable", "tests.faulty.by_function", "--num-trials", "9", "--max-epochs", "9"),
    *("--no-ray-dashboard", "--max-concurrent", "1", "--seed", "3"),
)


@pytest.mark.long
def test_one_that_was_killed_decides_and_ends_as_one_that_was_not(
    sweep: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    check_same_when_killed(sweep, SWEEP, {**environment, "EPOCH_S": "0.1"}, tmp_path)

    best = tmp_path / "whole" / "best"
    assert (best / "checkpoint" / "inside" / "state.pt").is_file()
    words = ["tests.faulty.by_function", "--params", str(best / "params.yaml"), "--name", "again"]
    again = subprocess.run(
        [sys.executable, "-m", "sweeps.fit", *words, "--results-dir", str(tmp_path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0, again.stdout + again.stderr
    first, second = (
        yaml.safe_load((tmp_path / name / "best" / "params.yaml").read_text()) for name in ("whole", "again")
    )
    assert (first["score"], first["epoch"]) == (second["score"], second["epoch"])


@pytest.mark.long
def test_one_without_checkpoints_is_never_paused(sweep: Command, tmp_path: Path) -> None:
    """Its trials are stopped by asha, and the best one's hyperparameters are kept."""
    module = tmp_path / "project" / "plain.py"
    module.parent.mkdir()
    module.write_text(
        "from ray import tune\nMETRIC, MODE = 'loss', 'min'\nSPACE = {'x': tune.uniform(-1, 1)}\n"
        "def train(params, trial):\n"
        "    for epoch in trial.epochs:\n        trial.report({'loss': params.x**2 / epoch})\n"
    )
    done = sweep(
        *("--trainable", str(module), "--num-trials", "6", "--max-epochs", "9", "--no-ray-dashboard"),
        *("--name", "plain", "--results-dir", str(tmp_path)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "scheduler  asha" in done.stdout
    assert "reports without save" in done.stdout
    assert yaml.safe_load((tmp_path / "plain" / "best" / "params.yaml").read_text())["params"].keys() == {"x"}
    assert not (tmp_path / "plain" / "best" / "checkpoint").exists()
    assert f"Settings   {tmp_path}/plain/best" in done.stdout
    assert "checkpoints while it runs" not in done.stdout
    words = [str(module), "--x", "0.5", "--max-epochs", "3", "--checkpoint-epochs", "1", "--name", "once"]
    once = subprocess.run(
        [sys.executable, "-m", "sweeps.fit", *words, "--results-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert once.returncode == 0, once.stdout + once.stderr
    assert f"Settings   {tmp_path}/once/best" in once.stdout
