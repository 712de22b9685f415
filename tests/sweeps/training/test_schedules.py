"""For how many epochs a learning rate is scheduled is seen, and its schedules begin anew behind an epoch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch.optim import lr_scheduler as schedules

from sweeps.training.config import FitConfig
from sweeps.training.report import CheckpointUnusable, Progress, Report
from sweeps.training.runs.fit_loop import Fit
from tests.support.trainables import as_trainable, run_through

EPOCHS, STEPS = 4, 3
Make = Callable[[pl.LightningModule, Any], Any]


@pytest.fixture(autouse=True)
def rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scheduled, "rates", [])


class Scheduled(pl.LightningModule):
    """One weight, with a schedule of a test."""

    rates: list[float] = []  # noqa: RUF012 (a test sets it)
    """The learning rate of each step."""

    def __init__(self, make: Make) -> None:
        super().__init__()
        self.weight, self._make = torch.nn.Parameter(torch.zeros(1)), make

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        self.rates.append(self.optimizers().param_groups[0]["lr"])  # type: ignore[union-attr]
        return ((self.weight - batch[0].mean()) ** 2).sum()

    def on_train_epoch_end(self) -> None:
        self.log("score", float(self.weight))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return {"optimizer": optimizer, "lr_scheduler": self._make(self, optimizer)}


def one_cycle(model: pl.LightningModule, optimizer: Any) -> Any:
    steps = int(model.trainer.estimated_stepping_batches)
    schedule = schedules.OneCycleLR(optimizer, max_lr=0.3, total_steps=steps)
    return {"scheduler": schedule, "interval": "step"}


def decay(model: pl.LightningModule, optimizer: Any) -> Any:
    epochs = model.trainer.max_epochs
    return schedules.LambdaLR(optimizer, lambda epoch: 1 - epoch / epochs)


def warm_up_then_cosine(model: pl.LightningModule, optimizer: Any) -> Any:
    parts = [schedules.LinearLR(optimizer, total_iters=1), schedules.CosineAnnealingLR(optimizer, T_max=3)]
    return schedules.SequentialLR(optimizer, parts, milestones=[1])


def steps_of_two(model: pl.LightningModule, optimizer: Any) -> Any:
    return schedules.StepLR(optimizer, 2)


def waves(model: pl.LightningModule, optimizer: Any) -> Any:
    return schedules.CosineAnnealingLR(optimizer, T_max=2)


def fit(make: Make, epochs: int, checkpoint: Path | None = None, schedule_from: int = 0) -> Fit:
    rows = torch.utils.data.TensorDataset(torch.ones(STEPS, 1))
    trainable = SimpleNamespace(
        Params=SimpleNamespace,
        build_model=lambda params: Scheduled(make),
        build_data=lambda params: pl.LightningDataModule.from_datasets(rows, batch_size=1),
    )
    config = FitConfig(max_epochs=epochs, metric="score", mode="max", precision="32")
    return Fit(as_trainable(trainable), SimpleNamespace(), config, checkpoint, schedule_from=schedule_from)


def trained(training: Fit, save_at: int = 0, folder: Path | None = None, last: int = 0) -> list[Report]:
    """Its reports, up to the last one."""
    found: list[Report] = []

    def on_epoch(report: Report) -> bool:
        found.append(report)
        if folder is not None and report.epoch == save_at:
            folder.mkdir(exist_ok=True)
            training.save(folder)
        return report.epoch != last

    run_through(training, on_epoch)
    return found


LENGTHS: dict[Any, dict[str, Any]] = {
    one_cycle: {"epochs": 4.0, "words": "OneCycleLR, total_steps 12", "is_final": True},
    decay: {"epochs": 4, "words": "the model reads trainer.max_epochs"},
    warm_up_then_cosine: {"epochs": 4.0, "words": "CosineAnnealingLR, T_max 3", "is_final": False},
    steps_of_two: {"epochs": 0},
    waves: {"epochs": 0},
}


@pytest.mark.parametrize("make", LENGTHS)
def test_the_length_of_a_schedule_is_told_with_the_first_epoch(make: Make) -> None:
    first, second = trained(fit(make, EPOCHS), last=2)
    assert (first.schedule, second.schedule) == (LENGTHS[make], None)


@pytest.mark.parametrize("make", [one_cycle, decay])
def test_a_schedule_that_is_made_anew_is_that_of_the_epochs_that_are_left(make: Make, tmp_path: Path) -> None:
    trained(fit(make, EPOCHS), save_at=EPOCHS, folder=tmp_path)
    of_four = [*Scheduled.rates]
    Scheduled.rates.clear()
    reports = trained(fit(make, 2 * EPOCHS, tmp_path, EPOCHS), save_at=6, folder=tmp_path / "later")
    assert [report.epoch for report in reports] == [5, 6, 7, 8]
    assert reports[0].schedule is not None
    assert reports[0].schedule["epochs"] == 8
    whole = [*Scheduled.rates]
    assert whole == pytest.approx(of_four)
    Scheduled.rates.clear()
    again = trained(fit(make, 2 * EPOCHS, tmp_path / "later", EPOCHS))
    assert Progress.read(tmp_path / "later").schedule_from == EPOCHS
    assert Scheduled.rates == whole[2 * STEPS :], "it begins anew once"
    assert [report.metrics for report in again] == [report.metrics for report in reports[2:]]


class CopiesModel(pl.Callback):
    """As Lightning's WeightAveraging."""

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        copy.deepcopy(pl_module)


def test_a_model_whose_schedule_is_made_anew_can_be_copied(tmp_path: Path) -> None:
    trained(fit(one_cycle, EPOCHS), save_at=EPOCHS, folder=tmp_path)
    later = fit(one_cycle, 2 * EPOCHS, tmp_path, EPOCHS)
    later.callbacks.append(CopiesModel())
    assert [report.epoch for report in trained(later)] == [5, 6, 7, 8]


def test_a_checkpoint_from_before_the_new_start_is_not_used(tmp_path: Path) -> None:
    trained(fit(one_cycle, EPOCHS), save_at=2, folder=tmp_path)
    with pytest.raises(CheckpointUnusable, match="is of an epoch before 4"):
        trained(fit(one_cycle, 8, tmp_path, EPOCHS))
