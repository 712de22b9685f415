"""A LightningCLI project is swept with no line of Python, and its own program trains the winner again.

It imports `pytorch_lightning`, as half of all projects; its own program gets the package of that name.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from sweeps.analysis import sweep as analysis_sweep
from tests.support import configured

pytest.importorskip("jsonargparse", reason="jsonargparse is not installed")


def typed(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in the folder of the project."""
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, timeout=240
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return configured.write_older(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def done(folder: Path) -> subprocess.CompletedProcess[str]:
    return typed(
        folder, "sweeps", "run", "--lightning-cli", "net_project.cli", "--cli-config", "config.yaml",
        "--ranges", "model.lr=0.05..1:log", "data.batch_size=32,64",
        "trainer.callbacks.1.init_args.patience=20..40",
        "--metric", "val_acc", "--mode", "max", "--num-trials", "2", "--max-epochs", "3", "--name", "swept",
        "--no-ray-dashboard",
    )  # fmt: skip


def test_all_trials_train_and_the_plan_says_what_is_overruled(
    done: subprocess.CompletedProcess[str], folder: Path
) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    assert "overruled  max_epochs 50" in done.stdout or "max_epochs 50: trials" in done.stdout
    trials = pq.read_table(folder / "results" / "swept" / "trials.parquet").to_pylist()
    assert {trial["status"] for trial in trials} <= {"finished", "pruned"}
    assert trials[0]["origin"] == "your defaults"
    assert trials[0]["params_model.lr"] == 0.1, "of the class"
    assert trials[0]["params_trainer.callbacks.1.init_args.patience"] == 40, "of the file"
    assert all(trial["params_model.lr"] >= 0.05 for trial in trials[1:])
    assert "test_acc" in done.stdout


def test_the_program_of_the_project_trains_the_winner_again(
    done: subprocess.CompletedProcess[str], folder: Path
) -> None:
    best = folder / "results" / "swept" / "best"
    settings = yaml.safe_load((best / "config.yaml").read_text())
    params = yaml.safe_load((best / "params.yaml").read_text())["params"]
    assert settings["model"]["lr"] == params["model.lr"]
    assert (
        settings["trainer"]["callbacks"][1]["init_args"]["patience"]
        == params["trainer.callbacks.1.init_args.patience"]
    )
    assert (
        "\n  - class_path: pytorch_lightning.callbacks.EarlyStopping\n" in (best / "config.yaml").read_text()
    )
    logger = ("--trainer.logger", "pytorch_lightning.loggers.CSVLogger", "--trainer.logger.save_dir", "logs")
    again = typed(folder, "net_project.cli", "fit", "-c", "results/swept/best/config.yaml", *logger)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "`Trainer.fit` stopped: `max_epochs=3` reached." in again.stdout + again.stderr
    (metrics,) = (folder / "logs").rglob("metrics.csv")
    assert "val_acc" in metrics.read_text()


@pytest.mark.long
def test_its_model_is_loaded_and_trained_by_name_from_any_folder(
    done: subprocess.CompletedProcess[str], folder: Path, tmp_path: Path
) -> None:
    swept = folder / "results" / "swept"
    single = typed(
        tmp_path, "sweeps", "fit", "lightning-cli:net_project.cli:config.yaml",
        "--params", str(swept / "best" / "params.yaml"), "--max-epochs", "1", "--name", "single",
    )  # fmt: skip
    assert single.returncode == 0, single.stdout + single.stderr
    assert (tmp_path / "results" / "single" / "best" / "weights.pt").is_file()
    best = analysis_sweep.load(swept).best()
    assert best is not None
    assert best.model().hparams["hidden"] == 48


@pytest.mark.long
def test_a_resume_continues_with_its_settings_and_refuses_others(
    done: subprocess.CompletedProcess[str], folder: Path
) -> None:
    more = typed(
        folder, "sweeps", "run", "--resume", "results/swept", "--num-trials", "4", "--no-ray-dashboard"
    )
    assert more.returncode == 0, more.stdout + more.stderr
    assert "4/4 ended" in more.stdout
    config = folder / "config.yaml"
    config.write_text(configured.CONFIG.replace("hidden: 48", "hidden: 40"))
    try:
        refused = typed(folder, "sweeps", "run", "--resume", "results/swept", "--num-trials", "5")
    finally:
        config.write_text(configured.CONFIG)
    assert refused.returncode == 2
    assert "config.yaml: its content" in refused.stderr
