"""A Hydra project is swept with no line of Python, and its own program trains the winner again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support import configured

pytest.importorskip("hydra", reason="hydra-core is not installed")


def typed(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in the folder of the project, with a variable that its settings read."""
    variables = {**os.environ, "NET_PROJECT_OUT": "out"}
    words = (sys.executable, *words)
    return subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, timeout=240)


@pytest.mark.long
def test_it_is_swept_and_trained_again(tmp_path: Path) -> None:
    configured.write_hydra(tmp_path)
    swept = typed(
        tmp_path, "-m", "sweeps", "run", "--hydra", "configs/train", "--hydra-overrides", "trainer=cpu",
        "--ranges", "model.lr=0.05..1:log", "data.batch_size=32,64", "--num-trials", "3", "--max-epochs", "4",
        "--epoch-steps", "8", "--name", "swept", "--no-ray-dashboard",
    )  # fmt: skip
    assert swept.returncode == 0, swept.stdout + swept.stderr
    assert "3/3 ended" in swept.stdout
    best = tmp_path / "results" / "swept" / "best"
    settings = yaml.safe_load((best / "best.yaml").read_text())
    assert settings["trainer"]["limit_train_batches"] == 8
    assert settings["model"]["lr"] == yaml.safe_load((best / "params.yaml").read_text())["params"]["model.lr"]
    again = typed(tmp_path, "train.py", "--config-dir", str(best), "--config-name", "best")
    assert again.returncode == 0, again.stdout + again.stderr
    assert f"lr {settings['model']['lr']} val_acc" in again.stdout
