"""A sweep over a model as Lightning projects write theirs: what was scored is what is tested and loaded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from sweeps import results
from tests.conftest import Command
from tests.faulty import typical_project


def test_the_weights_schedules_and_rows_of_a_trial_are_those_of_one_run(
    sweep: Command, tmp_path: Path
) -> None:
    run = sweep(
        *("--trainable", typical_project.__name__, "--ranges", "lr=0.01..0.5:log", "--num-trials", "5"),
        *("--max-epochs", "4", "--grace-epochs", "1", "--reduction-factor", "2", "--scheduler", "halving"),
        *("--name", "typical", "--results-dir", str(tmp_path), "--no-ray-dashboard"),
    )
    assert run.returncode == 0, run.stdout + run.stderr
    epochs = pq.read_table(tmp_path / "typical" / "epochs.parquet").to_pylist()
    assert len({epoch["sum_of_rows"] for epoch in epochs}) == 1
    for epoch in epochs:
        assert epoch["share_of_lr"] == pytest.approx(1 - epoch["epoch"] / 4, abs=1e-6)
    assert run.stdout.count("self.logger.experiment.add_image is dropped") == 1

    best = results.load(tmp_path / "typical").best()
    assert best is not None
    metrics = json.loads((tmp_path / "typical" / "best" / "metrics.json").read_text())
    assert metrics["test"]["test_loss"] == pytest.approx(best.score, rel=1e-5)
    assert re.search("Test +test_loss", run.stdout)
    model: Any = best.model()
    with torch.no_grad():
        loss = model.loss(next(iter(model.val_dataloader())))
    assert float(loss) == pytest.approx(best.score, rel=1e-5)
