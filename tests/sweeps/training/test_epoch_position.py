"""A run that is left inside an epoch continues at that very step, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from sweeps.training.config import FitConfig
from sweeps.training.data.datamodule import ParquetDataModule
from sweeps.training.data.shards import Manifest, columns_of, write_shard
from sweeps.training.report import Position, Report
from sweeps.training.runs.fit_loop import Fit
from tests.support.trainables import as_trainable, run_through
from tests.sweeps.training.data.numbered import row_groups_of
from tests.sweeps.training.schedules import lowered_on_plateau

ROWS, EPOCHS = 80, 3


class Noisy(pl.LightningModule):
    """Draws random numbers in each step, and keeps a moving average of its weights in a hook of its own."""

    def __init__(self, rate: float = 0.5) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(rate), nn.Linear(8, 1))
        self.average: torch.Tensor
        self.register_buffer("average", torch.zeros(4))

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        noise = torch.from_numpy(np.random.standard_normal(batch["x"].shape)).float()
        return nn.functional.mse_loss(self.net(batch["x"] + noise)[:, 0], batch["y"])

    def on_train_batch_end(self, *_: Any) -> None:
        weights = next(self.net.parameters()).detach()
        self.average.lerp_(weights.mean(0), 0.1)

    def validation_step(self, batch: Any, index: int) -> None:
        loss = nn.functional.mse_loss(self.net(batch["x"])[:, 0], batch["y"])
        self.log("val_loss", loss, batch_size=len(batch["y"]))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.02)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Impatient(Noisy):
    """Has a schedule that goes by a metric."""

    def configure_optimizers(self) -> Any:
        return lowered_on_plateau(self)


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    folder = tmp_path / "prepared"
    folder.mkdir()
    draw = np.random.default_rng(0)
    rows = {"x": draw.random((ROWS, 4), np.float32), "y": draw.random(ROWS, np.float32)}
    with row_groups_of(16):
        shards = {
            split: [write_shard(folder, f"{split}-0.parquet", rows, columns_of(rows))]
            for split in ("train", "val")
        }
    Manifest(columns=columns_of(rows), splits=shards).write(folder)
    return folder


def trainable(build_data: Callable[[], Any], build_model: Callable[[], pl.LightningModule] = Noisy) -> Any:
    return SimpleNamespace(build_model=lambda params: build_model(), build_data=lambda params: build_data())


def config(micro_batch: int | None = None) -> FitConfig:
    return FitConfig(
        max_epochs=EPOCHS, metric="val_loss", mode="min", precision="32", micro_batch=micro_batch
    )


def run(
    what: Any,
    fit: FitConfig,
    checkpoint: Path | None = None,
    leave_after: int = 10**9,
    save: Path | None = None,
) -> tuple[list[Report | Position], Fit]:
    """What a run reports; it is asked to leave after so many questions, and saves itself where it does."""
    questions, reported = iter(range(10**9)), []
    training = Fit(
        as_trainable(what), None, fit, checkpoint, is_to_leave=lambda: next(questions) >= leave_after
    )

    def on_epoch(found: Report | Position) -> bool:
        reported.append(found)
        if isinstance(found, Position):
            assert save is not None
            save.mkdir()
            training.save(save)
        return True

    run_through(training, on_epoch)
    return reported, training


def last_weights(training: Fit, folder: Path) -> dict[str, torch.Tensor]:
    folder.mkdir()
    training.save(folder)
    state: dict[str, torch.Tensor] = torch.load(folder / "resume.ckpt", weights_only=False)["state_dict"]
    return state


@pytest.mark.parametrize("build_model", [Noisy, Impatient])
@pytest.mark.parametrize(
    ("leave_after", "micro_batch", "position"),
    [
        (0, None, Position(1, 1, 10)),
        (5, None, Position(1, 6, 10)),
        (12, None, Position(2, 4, 10)),
        (11, 4, Position(2, 6, 20)),  # 9 questions in an epoch of 10 steps, with 2 micro-batches each
    ],
)
def test_it_trains_as_one_that_was_never_left(
    build_model: Callable[[], pl.LightningModule],
    leave_after: int,
    micro_batch: int | None,
    position: Position,
    prepared: Path,
    tmp_path: Path,
) -> None:
    what = trainable(lambda: ParquetDataModule(prepared, 8), build_model)
    whole, uninterrupted = run(what, config(micro_batch))
    before, _ = run(what, config(micro_batch), leave_after=leave_after, save=tmp_path / "left")
    torch.rand(7), np.random.random(7)  # another trial used this process meanwhile
    after, resumed = run(what, config(micro_batch), tmp_path / "left")
    assert before.pop() == position
    found = [(each.epoch, each.metrics) for each in [*before, *after] if isinstance(each, Report)]
    assert found == [(each.epoch, each.metrics) for each in whole if isinstance(each, Report)]
    expected = last_weights(uninterrupted, tmp_path / "whole")
    for name, tensor in last_weights(resumed, tmp_path / "resumed").items():
        assert torch.equal(tensor, expected[name]), name


def test_it_may_be_left_again_and_again(prepared: Path, tmp_path: Path) -> None:
    what = trainable(lambda: ParquetDataModule(prepared, 8))
    whole, uninterrupted = run(what, config())
    found, checkpoint = [], None
    for turn in range(100):
        reported, training = run(what, config(), checkpoint, leave_after=2, save=tmp_path / str(turn))
        found += reported
        if not isinstance(reported[-1], Position):
            break
        checkpoint = tmp_path / str(turn)
    epochs = [each for each in found if isinstance(each, Report)]
    assert [each.metrics for each in epochs] == [each.metrics for each in whole if isinstance(each, Report)]
    expected = last_weights(uninterrupted, tmp_path / "whole")
    for name, tensor in last_weights(training, tmp_path / "resumed").items():
        assert torch.equal(tensor, expected[name]), name


def test_the_time_of_an_epoch_is_that_of_its_parts(prepared: Path, tmp_path: Path) -> None:
    what = trainable(lambda: ParquetDataModule(prepared, 8))
    run(what, config(), leave_after=5, save=tmp_path / "left")
    about = torch.load(tmp_path / "left" / "resume.ckpt", weights_only=False)["callbacks"]["EpochEnd"]
    assert about["left"]["seconds"] > 0
    after, _ = run(what, config(), tmp_path / "left")
    assert isinstance(after[0], Report)
    assert after[0].seconds > about["left"]["seconds"]


class Rows(Dataset[dict[str, torch.Tensor]]):
    """Rows that PyTorch's own loader hands out, which has no position."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": torch.rand(4), "y": torch.rand(())}


def test_data_without_a_position_is_trained_to_the_end_of_the_epoch() -> None:
    class Plain(pl.LightningDataModule):
        def train_dataloader(self) -> Any:
            return DataLoader(Rows(), batch_size=4)

        val_dataloader = train_dataloader

    reported, _ = run(trainable(Plain), config(), leave_after=0)
    assert [type(each) for each in reported] == [Report] * EPOCHS


class Stateful(DataLoader[dict[str, torch.Tensor]]):
    """Goes on inside an epoch where it takes a position before it begins, as torchdata's loader."""

    handed_out = first = 0

    def __iter__(self) -> Any:
        first, self.first = self.first, 0
        return self._from(first, super().__iter__())

    def _from(self, first: int, batches: Any) -> Any:
        for self.handed_out, batch in enumerate(batches, 1):
            if self.handed_out > first:
                yield batch

    def state_dict(self) -> dict[str, int]:
        return {"handed_out": self.handed_out}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.first = state["handed_out"]


class Planning(Noisy):
    """Has its loader made before a checkpoint's position is known."""

    def configure_optimizers(self) -> Any:
        assert self.trainer.estimated_stepping_batches == 8 * EPOCHS
        return super().configure_optimizers()


@pytest.mark.parametrize(("build_model", "is_left_inside"), [(Noisy, True), (Planning, False)])
def test_another_loader_goes_on_only_where_it_takes_its_position(
    build_model: Callable[[], pl.LightningModule], is_left_inside: bool, tmp_path: Path
) -> None:
    class Data(pl.LightningDataModule):
        def train_dataloader(self) -> Any:
            rows = [{"x": torch.full((4,), row / 16), "y": torch.tensor(row / 16)} for row in range(16)]
            return Stateful(rows, batch_size=2)  # type: ignore[arg-type]

        val_dataloader = train_dataloader

    what = trainable(Data, build_model)
    whole, _ = run(what, config())
    before, _ = run(what, config(), leave_after=3, save=tmp_path / "left")
    if is_left_inside:
        assert before == [Position(1, 4, 8)]
        before, _ = run(what, config(), tmp_path / "left")
    assert [(each.epoch, each.metrics) for each in before if isinstance(each, Report)] == [
        (each.epoch, each.metrics) for each in whole if isinstance(each, Report)
    ]
