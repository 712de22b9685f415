"""Prepared rows shared out to two workers of a run, and none of them when it is tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from sweeps.training.data import shards
from sweeps.training.data.shards import Manifest
from tests.conftest import ROOT

Fit = Callable[..., "subprocess.CompletedProcess[str]"]
MODEL = """
import atexit
import os
import time
from dataclasses import dataclass
from pathlib import Path
import lightning.pytorch as pl
import torch
import torchmetrics
from sweeps.training.data.datamodule import ParquetDataModule

METRIC, MODE = "val_rows", "max"

@dataclass(frozen=True, kw_only=True)
class Params:
    batch_size: int = 8
    broken: int = -1

class Counting(pl.LightningModule):
    def __init__(self, broken):
        super().__init__()
        self.broken = broken
        self.weight, self.rows = torch.nn.Parameter(torch.zeros(1)), 0.0
        self.tested = torchmetrics.SumMetric()  # it adds those of all workers, as long as there are some
    def training_step(self, batch, index):
        if self.global_rank == self.broken:
            atexit.register(time.sleep, 600)  # as NCCL would wait for the other worker
            raise RuntimeError("this worker broke")
        return self.weight.square().sum()
    def validation_step(self, batch, index):
        self.rows += len(batch["row"])
    def on_validation_epoch_end(self):
        self.log("val_rows", self.rows)
        if self.global_rank == 0:
            self.log("first", self.rows, rank_zero_only=True)
        self.rows = 0.0
    def test_step(self, batch, index):
        self.tested.update(len(batch["row"]))
        self.log("test_rows", self.tested)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

def build_model(params):
    return Counting(params.broken)

def build_data(params):
    return ParquetDataModule(Path(os.environ["ROWS"]), params.batch_size)
"""


@pytest.fixture
def fit(tmp_path: Path) -> Iterator[Fit]:
    """Runs `sweeps fit` with two workers on 40 rows; of both, nothing is left behind."""
    rows = {"row": np.arange(40)}
    columns = shards.columns_of(rows)
    splits = {
        split: [shards.write_shard(tmp_path / "rows", f"{split}.parquet", rows, columns)]
        for split in ("train", "val", "test")
    }
    Manifest(columns=columns, splits=splits).write(tmp_path / "rows")
    (tmp_path / "counting_rows.py").write_text(MODEL)
    flags = ("--devices", "2", "--strategy", "ddp", "--threads", "1", "--max-epochs", "1", "--name", "it")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ROWS": str(tmp_path / "rows")}

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sweeps.fit", "counting_rows", *flags, *more]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )

    yield run
    left = [each for each in psutil.process_iter(["cwd"]) if each.info["cwd"] == str(tmp_path)]
    assert psutil.wait_procs(left, timeout=10)[1] == [], "they have been killed, and may be on their way"


@pytest.mark.slow
def test_two_workers_share_the_rows_and_the_first_tests_on_all_of_them(fit: Fit, tmp_path: Path) -> None:
    done = fit("--test")
    assert done.returncode == 0, done.stderr
    epoch = json.loads((tmp_path / "results/it/epochs.jsonl").read_text())
    assert epoch["val_rows"] == 20  # the mean of two
    assert epoch["first"] == 20  # which the other one does not have, nor wait for
    assert "test_rows 40" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_worker_that_breaks_waits_for_no_other_one(rank: int, fit: Fit) -> None:
    done = fit("--broken", str(rank))
    assert done.returncode != 0
    assert "RuntimeError: this worker broke" in done.stderr
