"""What feeds the card and what it holds: pinned batches, the micro-batch that fits, an epoch's costs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from sweeps.training.data import shards
from sweeps.training.data.datamodule import ParquetDataModule, read_ahead
from sweeps.training.data.shards import Manifest
from tests.conftest import ROOT
from tests.gpu.fits import NEEDS_GPU, digits, trained
from trainables import digits_mlp, fashion_cnn

pytestmark = [*NEEDS_GPU]


@pytest.mark.parametrize("loader_workers", [0, 2])
def test_prepared_batches_are_pinned(loader_workers: int, tmp_path: Path) -> None:
    rows = {"image": np.zeros((64, 8, 8, 3), np.uint8), "row": np.arange(64)}
    columns = shards.columns_of(rows)
    written = shards.write_shard(tmp_path, "train.parquet", rows, columns)
    Manifest(columns=columns, splits={"train": [written]}).write(tmp_path)
    loader = ParquetDataModule(tmp_path, 16, loader_workers=loader_workers).train_dataloader()
    assert all(values.is_pinned() for batch in loader for values in batch.values())


def test_an_epoch_tells_its_memory_its_gpu_util_and_its_data_wait() -> None:
    _, seen = trained(fashion_cnn, fashion_cnn.Params(rows=50_000, width=64), precision="16-mixed")
    costs = seen[-1].costs
    assert 0.001 < costs["gpu_memory_gb"] < 4
    assert 0 < costs["gpu_util_pct"] <= 100
    assert 0 <= costs["data_wait_pct"] < 50


def test_a_larger_model_takes_more_memory() -> None:
    peaks = [
        digits(params=digits_mlp.Params(hidden=hidden), max_epochs=1)[1][-1].costs["gpu_memory_gb"]
        for hidden in (16, 2**20)
    ]
    assert peaks[1] > peaks[0] + 0.5, "2**20 x 74 weights, with gradients and momentum"


def test_the_next_batch_is_made_by_a_thread_that_uses_the_same_card() -> None:
    made = list(read_ahead((threading.get_ident(), torch.cuda.current_device()) for _ in range(3)))
    here = threading.get_ident()
    assert [by == here for by, _ in made] == [True, False, False]
    assert {card for _, card in made} == {torch.cuda.current_device()}


HUNGRY = """
import torch
from trainables.digits_mlp import METRIC, MODE, Params, build_data
from trainables._shared.classifier import SgdClassifier

class Hungry(SgdClassifier):
    def training_step(self, batch, index):
        torch.cuda.set_per_process_memory_fraction(2 * 2**30 / torch.cuda.mem_get_info()[1])
        spent = torch.empty(len(batch[1]) * 2**27, dtype=torch.uint8, device="cuda")  # 128 MiB a row of 2 GiB
        return super().training_step(batch, index)

def build_model(params):
    return Hungry(torch.nn.Linear(64, 10), lr=params.lr, momentum=0.0, weight_decay=0.0)
"""


def test_the_micro_batch_that_fits_is_found(tmp_path: Path) -> None:
    (tmp_path / "hungry.py").write_text(HUNGRY)
    flags = ("--find-batch-size", "--batch-size", "16", "--max-epochs", "1", "--steps-per-epoch", "2")
    command = [sys.executable, "-m", "sweeps.fit", "hungry", *flags]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "micro-batch of 8 rows x 2" in done.stdout
