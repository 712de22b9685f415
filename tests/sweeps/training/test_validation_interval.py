"""An epoch that is a part of a pass over the training data, or several: up to the next validation."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.utilities import CombinedLoader
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

from sweeps.common.errors import CannotTrain
from sweeps.training.config import FitConfig
from sweeps.training.report import Report
from sweeps.training.runs.fit_loop import Fit
from tests.support.trainables import as_trainable, run_through

ROWS = 24


class Rows(Dataset[torch.Tensor]):
    """Numbered rows, with noise that is drawn in this process."""

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, row: int) -> torch.Tensor:
        return torch.cat([torch.tensor([float(row)]), torch.rand(3)])


class Stream(IterableDataset[torch.Tensor]):
    """The same in an order of its own, without a length."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        rows = list(range(ROWS))
        random.shuffle(rows)
        for row in rows:
            if random.random() < 2:  # draws between two rows, as a buffer does
                yield Rows()[row]


class Data(pl.LightningDataModule):
    def __init__(self, kind: str, workers: int = 0) -> None:
        super().__init__()
        self.kind, self.workers, self.batch_size = kind, workers, 2

    def train_dataloader(self) -> Any:
        if self.kind == "stream":
            return DataLoader(Stream(), self.batch_size, num_workers=self.workers)
        if self.kind == "distributed":
            sampler = DistributedSampler(Rows(), num_replicas=1, rank=0)
            return DataLoader(Rows(), self.batch_size, sampler=sampler)
        loader = DataLoader(Rows(), self.batch_size, shuffle=True, num_workers=self.workers)
        if self.kind == "one is shorter":
            sampler = DistributedSampler(Rows(), num_replicas=1, rank=0)
            return CombinedLoader([DataLoader(Rows(), 4, sampler=sampler), loader], "max_size_cycle")
        if self.kind == "several":
            return CombinedLoader([loader, DataLoader(Rows(), 3, shuffle=True)], "min_size")
        return loader

    def val_dataloader(self) -> Any:
        return DataLoader(Rows(), 12)


class Net(pl.LightningModule):
    """Notes the rows that it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        self.rows: list[int] = []
        self.batches_of_a_pass = 0

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        first = batch[0] if isinstance(batch, list) else batch
        self.rows += map(int, first[:, 0])
        self.log("train_loss", loss := self.net(first[:, 1:]).square().mean())
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", self.net(batch[:, 1:]).square().mean())

    def on_train_epoch_start(self) -> None:
        if self.trainer.datamodule.kind == "rows":  # type: ignore[attr-defined]
            self.batches_of_a_pass = len(self.trainer.datamodule.train_dataloader())  # type: ignore[attr-defined]

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), 0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)]


def trained(
    settings: dict[str, Any],
    data: Data,
    checkpoint: Path | None = None,
    save_to: Path | None = None,
    options: dict[str, Any] | None = None,
) -> tuple[list[Report], Net, Fit]:
    """The epochs of a run, which may be saved and left after the fourth."""
    what = SimpleNamespace(
        METRIC="val_loss",
        MODE="min",
        Params=SimpleNamespace,
        build_model=lambda params: Net(),
        build_data=lambda params: data,
        trainer_options=lambda params: options or {},
    )
    config = FitConfig(**{"max_epochs": 6, "metric": "val_loss", "mode": "min", **settings})
    fit, epochs = Fit(as_trainable(what), SimpleNamespace(), config, checkpoint), list[Report]()

    def heard(epoch: Report) -> bool:
        epochs.append(epoch)
        if save_to is None or epoch.epoch != 4:
            return True
        fit.save(save_to)
        return False

    run_through(fit, heard)
    model: Any = fit._model
    return epochs, model, fit


class CopiedForWorkers(Data):
    """Is pickled, as for a loader's worker that is not forked where `collate_fn` is a method of it."""

    def val_dataloader(self) -> Any:
        pickle.dumps(self)
        return super().val_dataloader()


def test_the_data_module_can_be_copied_into_the_workers_of_its_loaders() -> None:
    epochs, _, _ = trained({"val_check_interval": 5}, CopiedForWorkers("rows"))
    assert len(epochs) == 6


def metrics(epochs: list[Report]) -> dict[int, dict[str, float]]:
    return {epoch.epoch: dict(epoch.metrics) for epoch in epochs}


@pytest.mark.parametrize(
    ("settings", "kind", "workers"),
    [
        ({"val_check_interval": 0.34}, "rows", 0),
        ({"val_check_interval": 5}, "rows", 0),
        ({"val_check_interval": 17}, "rows", 0),
        ({"val_check_interval": 5}, "stream", 0),
        pytest.param({"val_check_interval": 5}, "stream", 1, marks=pytest.mark.slow),
        ({"val_check_interval": 5}, "several", 0),
        ({"val_check_interval": 5}, "distributed", 0),
        ({"val_check_interval": 5}, "one is shorter", 0),
        ({"check_val_every_n_epoch": 2}, "rows", 0),
    ],
)
def test_a_run_that_was_left_goes_on_with_the_same_rows(
    settings: dict[str, Any], kind: str, workers: int, tmp_path: Path
) -> None:
    whole, seen, _ = trained(settings, Data(kind, workers))
    before, seen_before, _ = trained(settings, Data(kind, workers), save_to=tmp_path)
    torch.rand(7)  # another trial used this process meanwhile
    after, seen_after, _ = trained(settings, Data(kind, workers), checkpoint=tmp_path)
    assert [epoch.epoch for epoch in whole] == [1, 2, 3, 4, 5, 6]
    assert seen_before.rows + seen_after.rows == seen.rows
    assert {**metrics(before), **metrics(after)} == metrics(whole)


@pytest.mark.parametrize("interval", [0.25, 3])
def test_each_pass_has_each_row_once_and_the_next_one_another_order(interval: float) -> None:
    epochs, model, _ = trained({"val_check_interval": interval, "max_epochs": 8}, Data("rows"))
    first, second = model.rows[:ROWS], model.rows[ROWS:]
    assert sorted(first) == sorted(second) == list(range(ROWS))
    assert first != second
    assert model.batches_of_a_pass == 12, "the project's own code sees its loader as it is"
    assert len(epochs) == 8


def test_an_epoch_of_several_passes_is_validated_and_reported_once() -> None:
    epochs, model, fit = trained({"check_val_every_n_epoch": 3, "max_epochs": 2}, Data("rows"))
    assert [epoch.epoch for epoch in epochs] == [1, 2]
    assert len(model.rows) == 6 * ROWS
    assert fit._trainer is not None
    assert fit._trainer.current_epoch == 6


def test_the_limit_of_a_pass_holds() -> None:
    options = {"limit_train_batches": 6}
    _, model, _ = trained({"val_check_interval": 0.5, "max_epochs": 4}, Data("rows"), options=options)
    assert len(model.rows) == 4 * 3 * 2


@pytest.mark.parametrize("micro_batch", [None, 1])
def test_batches_are_whole_ones_whatever_the_micro_batch(micro_batch: int | None) -> None:
    settings = {"val_check_interval": 5, "max_epochs": 3, "micro_batch": micro_batch}
    _, model, fit = trained(settings, Data("rows"))
    assert len(model.rows) == 3 * 5 * 2
    assert fit._trainer is not None
    assert fit._trainer.global_step == fit._trainer.estimated_stepping_batches == 15


@pytest.mark.parametrize(
    ("settings", "kind", "options", "expected"),
    [
        ({"val_check_interval": 0.5}, "stream", {}, "does not say how long it is; give a number of batches"),
        ({"val_check_interval": 5}, "rows", {"accumulate_grad_batches": 3}, "3, .* --val-check-interval 6"),
        ({"val_check_interval": 0.25, "micro_batch": 1}, "rows", {"accumulate_grad_batches": 2}, "val 4"),
        ({"val_check_interval": 5}, "rows", {"reload_dataloaders_every_n_epochs": 1}, "give one of them"),
    ],
)
def test_what_can_not_be_is_told(
    settings: dict[str, Any], kind: str, options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(CannotTrain, match=expected):
        trained(settings, Data(kind), options=options)
