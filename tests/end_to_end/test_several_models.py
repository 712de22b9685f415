"""Whole sweeps of two models, as a user runs them, and one that is killed on its way."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
import yaml

from sweeps.analysis import sweep as analysis_sweep
from sweeps.record.record import Record
from sweeps.training.time_breakdown import COSTS
from tests.conftest import Command, optuna_trials
from tests.support.killing import Murderer

TOY, STEPS = "tests.faulty.toy", "tests.faulty.steps"
TOYS = (
    "--no-baseline",
    *("--trainable", TOY, STEPS, "--search-space", "tests.faulty.branches", "tests.faulty.speeds"),
    *("--max-epochs", "9", "--grace-epochs", "1", "--no-ray-dashboard", "--no-preflight"),
)
RUN_SETTINGS = ["pid", "start", "end", "seconds", *COSTS]


@pytest.mark.long
def test_two_toys_compete_under_one_scheduler(sweep: Command, tmp_path: Path) -> None:
    """TPE and ASHA; one space is a function, the other is not."""
    folder = tmp_path / "s"
    done = sweep(
        *(*TOYS, "--num-trials", "16", "--params", "epoch_s=0.001", f"{STEPS}.epoch_s=0.002"),
        *("--name", folder.name, "--results-dir", str(tmp_path), "--seed", "2"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "Warning" not in done.stdout
    trials = pq.read_table(folder / "trials.parquet").to_pylist()
    assert {trial["trainable"] for trial in trials} == {TOY, STEPS}
    for trial in trials:
        is_toy = trial["trainable"] == TOY
        assert (trial["params_speed"] is None) is is_toy
        assert (trial["params_fault"] is None) is not is_toy
        assert trial["params_epoch_s"] == (0.001 if is_toy else 0.002)
        slope = trial["params_slope"] or trial["params_speed"] or 1.0
        assert trial["best_score"] == pytest.approx(slope * trial["epochs"])
    record = Record.read(folder)
    best = record.best()
    assert best is not None
    about = yaml.safe_load((folder / "best" / "params.yaml").read_text())
    assert (about["trial"], about["trainable"]) == (best.number, best.trainable)
    assert f"Best       trial {best.number} ({best.trainable}): score" in done.stdout
    assert "Test       test_score" in done.stdout
    frozen = optuna_trials(folder)
    assert {frozen[number].params["trainable"] for number in range(16)} == {TOY, STEPS}
    assert all(name == "trainable" or name.startswith("tests.faulty.") for t in frozen for name in t.params)
    settings = yaml.safe_load((folder / "sweep.yaml").read_text())
    assert settings["trainable"] == [TOY, STEPS]
    refused = sweep("--resume", str(folder), "--num-trials", "20", "--trainable", TOY)
    assert refused.returncode == 2
    assert f"--trainable {TOY}: the sweep has {TOY}, {STEPS}" in refused.stderr
    more = sweep("--resume", str(folder), "--num-trials", "18")
    assert more.returncode == 0, more.stdout + more.stderr
    assert len(Record.read(folder).trials) == 18


@pytest.mark.long
def test_one_warm_process_trains_two_real_models(sweep: Command, tmp_path: Path) -> None:
    """Random search and ASHA."""
    folder = tmp_path / "s"
    done = sweep(
        *("--trainable", "fashion_cnn", "digits_mlp", "--params", "fashion_cnn.rows=300"),
        *("--searcher", "random", "--num-trials", "6", "--max-epochs", "3", "--grace-epochs", "1"),
        *(
            "--max-concurrent",
            "1",
            "--no-ray-dashboard",
            "--no-preflight",
            "--name",
            folder.name,
            "--results-dir",
            str(tmp_path),
        ),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    trials = pq.read_table(folder / "trials.parquet").to_pylist()
    assert {trial["trainable"] for trial in trials} == {"fashion_cnn", "digits_mlp"}
    assert len({trial["pid"] for trial in trials}) == 1
    assert {trial["params_rows"] for trial in trials} == {300, None}
    best = max(trials, key=lambda trial: trial["best_val_acc"])
    assert yaml.safe_load((folder / "best" / "params.yaml").read_text())["trainable"] == best["trainable"]
    assert "Test       test_acc" in done.stdout
    first = "net.0.weight"
    shape = torch.load(folder / "best" / "weights.pt", weights_only=True)[first].shape
    assert len(shape) == (4 if best["trainable"] == "fashion_cnn" else 2)


@pytest.mark.long
def test_a_sweep_of_two_models_killed_on_its_way_ends_as_one_that_was_not(
    sweep: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    """TPE and ASHA, one trial at a time."""
    one_at_a_time = (*TOYS, "--num-trials", "9", "--max-concurrent", "1", "--checkpoint-epochs", "1")
    whole = sweep(*one_at_a_time, "--name", "whole", "--results-dir", str(tmp_path), timeout_s=400)
    assert whole.returncode == 0, whole.stdout + whole.stderr
    (tmp_path / "killed" / "attempts").mkdir(parents=True)
    diary = {"TOY_ATTEMPTS": str(tmp_path / "killed" / "attempts")}
    moments = random.Random(random.randrange(10**6))
    folder = tmp_path / "killed" / "sweep"
    killer = Murderer(folder, one_at_a_time, {**environment, **diary}, moments, 4_000)
    done = killer.run(kills=2)
    assert done.returncode == 0, done.stdout
    assert killer.kills >= 1
    ours, theirs = analysis_sweep.load(folder), analysis_sweep.load(tmp_path / "whole")
    assert set(ours.trials["trainable"].to_pylist()) == {TOY, STEPS}
    assert ours.trials.drop_columns(RUN_SETTINGS).equals(theirs.trials.drop_columns(RUN_SETTINGS))
    assert ours.epochs.drop_columns(["seconds", "time", *COSTS]).equals(
        theirs.epochs.drop_columns(["seconds", "time", *COSTS])
    )
    assert {**ours.about["test"], "reported": 0} == {**theirs.about["test"], "reported": 0}
