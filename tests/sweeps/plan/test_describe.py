"""The plan as text."""

from __future__ import annotations

import re
from pathlib import Path

from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe
from tests.sweeps.plan.planned import config


def line(text: str, title: str) -> str:
    return next(each for each in text.splitlines() if each.startswith(title))


def test_the_plan_names_all_that_will_be_done(tmp_path: Path) -> None:
    made = make_plan(config(tmp_path, num_trials=9, params={"batch_size": 32}))
    text = describe(made)
    assert "s: digits_mlp, val_acc (max), seed 0" in line(text, "sweep")
    assert "digits" in line(text, "data")
    assert "1,200 rows to train on, 300 to validate" in line(text, "data")
    assert "3 hyperparameters" in line(text, "space")
    assert re.search(r"lr +0\.001 to 1, log scale", text)
    assert re.search(r"hidden +8 to 64 in steps of 8", text)
    assert line(text, "fixed").endswith("batch_size=32")
    assert line(text, "searcher").endswith("gp")
    assert "9 trials to epoch 3, of them the best 3 to epoch 9, one to" in line(text, "scheduler")
    assert line(text, "trials").endswith("9, each of at most 27 epochs")
    assert line(text, "epochs").startswith("epochs     at most 243; about 63 ")
    assert line(text, "epochs").endswith(" expected with pruning")
    assert re.search(r"\d+ trials at a time on this PC \(\d+ CPUs, \d+ GPUs\), each with 1 CPU", text)
    assert line(text, "folder").endswith(str(tmp_path / "s"))


def test_the_plan_of_a_cluster_names_its_address(tmp_path: Path) -> None:
    text = describe(make_plan(config(tmp_path, address="10.0.0.1:6379", cpus_per_trial=900)))
    assert line(text, "resources").endswith(
        "900 CPUs and 0 GPUs per trial, on the Ray cluster at 10.0.0.1:6379"
    )
    text = describe(make_plan(config(tmp_path, address="10.0.0.1:6379", workers_per_trial=2)))
    assert "2 workers (1 CPU and 0 GPUs per worker) per trial, on the Ray cluster" in line(text, "resources")


def test_without_pruning_the_plan_expects_every_epoch(tmp_path: Path) -> None:
    text = describe(make_plan(config(tmp_path, scheduler="none", num_trials=10)))
    assert line(text, "epochs").endswith(" 270")
