"""fp16 with a scaled loss, and bf16: what overflows is skipped, what is resumed goes on as it was."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from torch import nn

from sweeps.training.data.datamodule import ParquetDataModule
from sweeps.training.data.shards import Manifest, columns_of, write_shard
from sweeps.training.report import Position
from sweeps.training.runs.fit_loop import RESUME_FILE, Fit
from tests.gpu.fits import EPOCHS, NEEDS_GPU, Watch, config, digits, overflowing, trained
from tests.support.trainables import as_trainable, run_through
from trainables import digits_mlp, fashion_vit

pytestmark = [*NEEDS_GPU]
PRECISIONS = ("32", "bf16-mixed", "16-mixed")
OVERFLOWS_AT = 8


def test_fp16_is_the_default_and_the_weights_stay_fp32() -> None:
    fit, seen = trained(fashion_vit, fashion_vit.Params(rows=3000), precision="auto", strategy="auto")
    assert (fit.choice.precision, fit.choice.strategy) == ("16-mixed", "single")
    assert seen[-1].score > 0.5
    assert {weight.dtype for weight in fit.best.weights.values()} == {torch.float32}


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_the_losses_of_half_precision_are_those_of_fp32(precision: str) -> None:
    (_, exact), (_, halved) = digits(precision="32"), digits(precision=precision)
    for ours, theirs in zip(halved, exact, strict=True):
        assert ours.metrics["val_loss"] == pytest.approx(theirs.metrics["val_loss"], rel=0.02)


@pytest.mark.parametrize("strategy", ["single", "ddp"])
def test_a_step_that_overflows_is_skipped_and_halves_the_scale(strategy: str) -> None:
    watch = Watch()
    _, seen = trained(
        overflowing(OVERFLOWS_AT), digits_mlp.Params(lr=0.02), watch, precision="16-mixed", strategy=strategy
    )
    assert not watch.changed[OVERFLOWS_AT]
    assert watch.scales[OVERFLOWS_AT] == watch.scales[OVERFLOWS_AT - 1] / 2
    assert all(watch.changed[OVERFLOWS_AT + 2 :])
    assert math.isfinite(seen[-1].metrics["val_loss"])


@pytest.mark.parametrize("strategy", ["deepspeed_stage_1", "deepspeed_stage_2", "deepspeed_stage_3"])
def test_deepspeed_skips_steps_that_overflow(strategy: str) -> None:
    watch, steps = Watch(), (OVERFLOWS_AT, OVERFLOWS_AT + 1)  # of its first one it forgives the scale
    _, seen = trained(
        overflowing(*steps), digits_mlp.Params(lr=0.02), watch, precision="16-mixed", strategy=strategy
    )
    assert watch.scales[-1] < watch.scales[0] or math.isnan(watch.scales[0])
    assert math.isfinite(seen[-1].metrics["val_loss"])
    if strategy != "deepspeed_stage_3":  # whose weights are not in the module
        assert [watch.changed[step] for step in steps] == [False, False]


def test_the_scale_is_in_the_checkpoint(tmp_path: Path) -> None:
    watch = Watch()
    fit, _ = trained(
        overflowing(OVERFLOWS_AT), digits_mlp.Params(), watch, precision="16-mixed", max_epochs=1
    )
    fit.save(tmp_path)
    written = torch.load(tmp_path / RESUME_FILE, weights_only=False)
    assert written["MixedPrecision"]["scale"] == watch.scales[-1] < 65536


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_resumed_run_trains_to_the_bit_as_an_uninterrupted_one(precision: str, tmp_path: Path) -> None:
    _, alone = digits(precision=precision)
    first, _ = digits(precision=precision, until=lambda epoch: epoch.epoch < 1)
    first.save(tmp_path)
    _, rest = digits(precision=precision, checkpoint=tmp_path)
    assert [epoch.metrics for epoch in rest] == [epoch.metrics for epoch in alone[1:]]


class Regression(pl.LightningModule):
    """Draws random numbers of the GPU in each step."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.3), nn.ReLU(), nn.Linear(64, 1))

    def _loss(self, batch: Any) -> torch.Tensor:
        return nn.functional.mse_loss(self.net(batch["x"])[:, 0], batch["y"])

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        return self._loss(batch)

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("val_loss", self._loss(batch), batch_size=len(batch["y"]))

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=0.02, fused=True)


def prepared(folder: Path) -> Any:
    """A trainable of prepared data."""
    draw = np.random.default_rng(0)
    rows = {"x": draw.random((400, 4), np.float32), "y": draw.random(400, np.float32)}
    columns = columns_of(rows)
    shards = {name: [write_shard(folder, f"{name}.parquet", rows, columns)] for name in ("train", "val")}
    Manifest(columns=columns, splits=shards).write(folder)
    return SimpleNamespace(
        build_model=lambda params: Regression(), build_data=lambda params: ParquetDataModule(folder, 16)
    )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_run_that_was_left_inside_an_epoch_goes_on_to_the_bit(precision: str, tmp_path: Path) -> None:
    trainable, settings = prepared(tmp_path), config(precision=precision, metric="val_loss", mode="min")
    whole = Fit(as_trainable(trainable), None, settings)
    run_through(whole)
    steps = itertools.count()
    left = Fit(as_trainable(trainable), None, settings, is_to_leave=lambda: next(steps) > 30)
    seen: list[object] = []
    run_through(left, lambda epoch: bool(seen.append(epoch)) or True)
    assert isinstance(seen[-1], Position)
    (checkpoint := tmp_path / "checkpoint").mkdir()
    left.save(checkpoint)
    rest = Fit(as_trainable(trainable), None, settings, checkpoint)
    run_through(rest)
    assert rest.progress.epochs == whole.progress.epochs == EPOCHS
    assert rest.progress.metrics == whole.progress.metrics
    for name, weight in whole.best.weights.items():
        assert torch.equal(rest.best.weights[name], weight)
