"""An epoch's time by its first steps: of all batches, though few are trained."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from sweeps.training.config import FitConfig
from sweeps.training.runs.fit_loop import Fit
from sweeps.training.step_profiler import Meter
from sweeps.trial import run as trial_run
from sweeps.trial.run import FirstSteps
from sweeps.trial.trainable import STEPS
from tests.support.trainables import as_trainable, run_through

BATCHES, STEP_S = 40, 0.02


class Clock:
    """Stands in for the `time` of the callback: only steps take some."""

    now_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "now_s", 0.0)
    monkeypatch.setattr(trial_run, "time", Clock())


class Slow(pl.LightningModule):
    """A step takes its time; the first one takes ten times as long."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.steps = 0

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        Clock.now_s += STEP_S if self.steps else 10 * STEP_S
        self.steps += 1
        return self.weight.sum()

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("score", 1.0)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


class Unvalidated(Slow):
    """Logs its metric at the end of an epoch."""

    validation_step = pl.LightningModule.validation_step

    def on_train_epoch_end(self) -> None:
        self.log("score", 1.0)


class Endless(IterableDataset[torch.Tensor]):
    """Does not say how long it is."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            yield torch.ones(1)


def trained(data: Any) -> tuple[Slow, FirstSteps]:
    model = Slow()
    trainable: Any = SimpleNamespace(build_model=lambda params: model, build_data=lambda params: data)
    config = FitConfig(max_epochs=1, steps_per_epoch=STEPS, metric="score", mode="max")
    return model, first_steps(trainable, config)


def first_steps(trainable: Any, config: FitConfig) -> FirstSteps:
    fit = Fit(as_trainable(trainable), None, config)
    steps = FirstSteps(fit.meter)
    run_through(fit, callbacks=[steps])
    return steps


def test_all_batches_count_though_only_the_first_are_trained() -> None:
    rows = TensorDataset(torch.ones(BATCHES, 1))
    model, steps = trained(pl.LightningDataModule.from_datasets(rows, rows, batch_size=1))
    assert model.steps == STEPS
    assert steps.epoch_s == pytest.approx(BATCHES * STEP_S), "the first one, which takes longer, is not taken"


def test_a_run_without_validation_has_a_time() -> None:
    rows = TensorDataset(torch.ones(BATCHES, 1))
    data = pl.LightningDataModule.from_datasets(rows, batch_size=1)
    trainable: Any = SimpleNamespace(build_model=lambda params: Unvalidated(), build_data=lambda params: data)
    config = FitConfig(max_epochs=1, steps_per_epoch=STEPS, metric="score", mode="max")
    steps = first_steps(trainable, config)
    assert steps.epoch_s == pytest.approx(BATCHES * STEP_S)


def test_data_without_a_length_has_no_time() -> None:
    class Data(pl.LightningDataModule):
        def train_dataloader(self) -> Any:
            return DataLoader(Endless(), batch_size=1)

        def val_dataloader(self) -> Any:
            return DataLoader(Endless(), batch_size=1)

    _, steps = trained(Data())
    assert steps.epoch_s is None
    assert FirstSteps(Meter(1)).epoch_s is None
