"""What only a GPU shows: fp16, pinned batches, memory that ends, compiled kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from sweeps.training.config import FitConfig
from sweeps.training.data import shards
from sweeps.training.data.datamodule import ParquetDataModule
from sweeps.training.data.shards import Manifest
from sweeps.training.epoch_callback import Epoch
from sweeps.training.fit_loop import Fit
from tests.conftest import ROOT
from trainables import digits_mlp, fashion_vit

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]


def epochs_of(trainable: object, params: object, **settings: object) -> tuple[Fit, list[Epoch]]:
    config = FitConfig(metric="val_acc", mode="max", **{"max_epochs": 3, **settings})  # type: ignore[arg-type]
    fit, seen = Fit(trainable, params, config), []  # type: ignore[arg-type]
    fit.run(lambda epoch: bool(seen.append(epoch)) or True)
    return fit, seen


def test_fp16_is_the_default_and_trains_with_a_fused_optimizer() -> None:
    fit, seen = epochs_of(fashion_vit, fashion_vit.Params(rows=3000))
    assert fit.choice.precision == "16-mixed"
    assert seen[-1].score > 0.5
    assert {weight.dtype for weight in fit.best_weights.values()} == {torch.float32}
    assert seen[-1].costs["gpu_memory_gb"] > 0


@pytest.mark.parametrize("strategy", ["deepspeed_stage_1", "deepspeed_stage_2", "deepspeed_stage_3", "fsdp"])
def test_fp16_trains_by_each_strategy_and_its_losses_are_those_of_fp32(strategy: str) -> None:
    params = digits_mlp.Params(lr=0.02)
    _, exact = epochs_of(digits_mlp, params, precision="32")
    _, halved = epochs_of(digits_mlp, params, precision="16-mixed", strategy=strategy)
    assert halved[-1].metrics["val_loss"] == pytest.approx(exact[-1].metrics["val_loss"], rel=0.1)


def test_compiled_training_is_the_same() -> None:
    params = digits_mlp.Params()
    _, plain = epochs_of(digits_mlp, params, precision="32")
    _, compiled = epochs_of(digits_mlp, params, precision="32", compile=True)
    assert compiled[-1].metrics["val_loss"] == pytest.approx(plain[-1].metrics["val_loss"], rel=1e-2)


@pytest.mark.parametrize("loader_workers", [0, 2])
def test_prepared_batches_are_pinned(loader_workers: int, tmp_path: Path) -> None:
    rows = {"image": np.zeros((64, 8, 8, 3), np.uint8), "row": np.arange(64)}
    columns = shards.columns_of(rows)
    written = shards.write_shard(tmp_path, "train.parquet", rows, columns)
    Manifest(columns=columns, splits={"train": [written]}).write(tmp_path)
    loader = ParquetDataModule(tmp_path, 16, loader_workers=loader_workers).train_dataloader()
    assert all(values.is_pinned() for batch in loader for values in batch.values())


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


def test_the_micro_batch_that_fits_on_the_gpu_is_found(tmp_path: Path) -> None:
    (tmp_path / "hungry.py").write_text(HUNGRY)
    flags = ("--find-batch-size", "--batch-size", "64", "--max-epochs", "1", "--steps-per-epoch", "2")
    command = [sys.executable, "-m", "sweeps.fit", "hungry", *flags]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "micro-batch of 8 rows x 8" in done.stdout
