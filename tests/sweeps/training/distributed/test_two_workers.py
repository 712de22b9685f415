"""Prepared rows shared out to two workers of a run, and none of them when it is tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from sweeps.training.data import shards
from sweeps.training.data.shards import Manifest
from tests.conftest import ROOT

MODEL = """
import os
from dataclasses import dataclass
from pathlib import Path
import lightning.pytorch as pl
import torch
from sweeps.training.data.datamodule import ParquetDataModule

METRIC, MODE = "val_rows", "max"

@dataclass(frozen=True, kw_only=True)
class Params:
    batch_size: int = 8

class Counting(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight, self.rows = torch.nn.Parameter(torch.zeros(1)), 0.0
    def training_step(self, batch, index):
        return self.weight.square().sum()
    def validation_step(self, batch, index):
        self.rows += len(batch["row"])
    def on_validation_epoch_end(self):
        self.log("val_rows", self.rows)
        self.rows = 0.0
    def test_step(self, batch, index):
        self.rows += len(batch["row"])
    def on_test_epoch_end(self):
        self.log("test_rows", self.rows)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

def build_model(params):
    return Counting()

def build_data(params):
    return ParquetDataModule(Path(os.environ["ROWS"]), params.batch_size)
"""


def test_two_workers_share_the_rows_and_the_first_tests_on_all_of_them(tmp_path: Path) -> None:
    rows = {"row": np.arange(40)}
    columns = shards.columns_of(rows)
    splits = {
        split: [shards.write_shard(tmp_path / "rows", f"{split}.parquet", rows, columns)]
        for split in ("train", "val", "test")
    }
    Manifest(columns=columns, splits=splits).write(tmp_path / "rows")
    (tmp_path / "counting_rows.py").write_text(MODEL)
    flags = ("--devices", "2", "--strategy", "ddp", "--threads", "1", "--max-epochs", "1", "--test")
    command = [sys.executable, "-m", "sweeps.fit", "counting_rows", *flags, "--name", "it"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ROWS": str(tmp_path / "rows")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    epoch = json.loads((tmp_path / "results/it/epochs.jsonl").read_text())
    assert epoch["val_rows"] == 20  # the mean of two
    assert "test_rows 40" in done.stdout
