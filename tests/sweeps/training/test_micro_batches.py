"""Training in micro-batches is training in whole batches, but for rounding: steps, rates and weights agree.

The models have neither dropout nor batch normalization. A weight may differ by 1e-5: sums have another order.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, TensorDataset

from sweeps.common.errors import CannotTrain
from sweeps.training import batches
from sweeps.training.batches import MicroBatches
from sweeps.training.config import FitConfig
from sweeps.training.data.datamodule import ParquetDataModule
from sweeps.training.data.shards import Manifest, columns_of, write_shard
from sweeps.training.report import Position, Report
from sweeps.training.runs.fit_loop import Fit
from tests.support.trainables import as_trainable, run_through
from tests.sweeps.training.data.numbered import row_groups_of
from tests.sweeps.training.test_epoch_position import run, trainable

ROWS, BATCH, EPOCHS = 83, 8, 3
TOLERANCE = 1e-5
Build = Callable[[bool], pl.LightningDataModule]
"""Data, whose last batch is dropped or not."""


class Net(pl.LightningModule):
    """Its rate falls with each step; an optimizer without memory hides no gradient that is too small."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        return nn.functional.mse_loss(self.net(batch["x"])[:, 0], batch["y"])

    def validation_step(self, batch: Any, index: int) -> None:
        loss = nn.functional.mse_loss(self.net(batch["x"])[:, 0], batch["y"])
        self.log("val_loss", loss, batch_size=len(batch["y"]))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Dicts(pl.LightningDataModule):
    """PyTorch's own loader."""

    def __init__(self, drop_last: bool) -> None:
        super().__init__()
        self.batch_size, self._drop_last = BATCH, drop_last

    def train_dataloader(self) -> DataLoader[Any]:
        data = [{name: values[row] for name, values in rows().items()} for row in range(ROWS)]
        return DataLoader(data, self.batch_size, shuffle=True, drop_last=self._drop_last)  # type: ignore[arg-type]

    def val_dataloader(self) -> DataLoader[Any]:
        return DataLoader([{name: values[:9] for name, values in rows().items()}], batch_size=None)  # type: ignore[arg-type]


def rows() -> dict[str, Any]:
    draw = np.random.default_rng(0)
    inputs = draw.random((ROWS, 4), np.float32)
    return {"x": inputs, "y": (3 * inputs.prod(axis=1) + inputs[:, 0]).astype(np.float32)}


@pytest.fixture
def prepared(tmp_path: Path) -> Build:
    folder, columns = tmp_path / "prepared", columns_of(rows())
    folder.mkdir()
    with row_groups_of(16):
        shards = {s: [write_shard(folder, f"{s}.parquet", rows(), columns)] for s in ("train", "val")}
    Manifest(columns=columns, splits=shards).write(folder)
    return lambda drop_last: ParquetDataModule(folder, BATCH, drop_last=drop_last)


@pytest.fixture(params=["prepared", "DataLoader"])
def build(request: pytest.FixtureRequest, prepared: Build) -> Build:
    return prepared if request.param == "prepared" else Dicts


def config(micro_batch: int | None, **more: Any) -> FitConfig:
    settings = {"max_epochs": EPOCHS, "metric": "val_loss", "mode": "min", "precision": "32", **more}
    return FitConfig(micro_batch=micro_batch, **settings)


def assert_alike(one: Fit, other: Fit) -> None:
    assert one._trainer is not None
    assert other._trainer is not None
    assert one._trainer.global_step == other._trainer.global_step
    rates = [fit._trainer.optimizers[0].param_groups[0]["lr"] for fit in (one, other) if fit._trainer]
    assert rates[0] == pytest.approx(rates[1], abs=1e-9)
    for mine, its in zip(one._model.parameters(), other._model.parameters(), strict=True):
        torch.testing.assert_close(mine, its, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("micro_batch", [4, 1])
def test_it_trains_as_whole_batches_do(micro_batch: int, drop_last: bool, build: Build) -> None:
    """Of 83 rows the last batch of 8 has 3: one micro-batch of 4 that is not full, or three of 1."""
    what = trainable(lambda: build(drop_last), Net)
    (_, whole), (_, parts) = run(what, config(None)), run(what, config(micro_batch))
    assert_alike(parts, whole)


def test_without_weights_of_its_own_it_would_not(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above can fail: Lightning's own accumulation differs by more than the tolerance."""
    what = trainable(lambda: build(False), Net)
    _, whole = run(what, config(None))
    monkeypatch.setattr(batches, "rows_of_epoch", lambda *_: None)
    _, parts = run(what, config(4))
    with pytest.raises(AssertionError, match="not close"):
        assert_alike(parts, whole)


@pytest.mark.parametrize(("before", "now"), [(None, None), (None, 4), (4, 1), (2, None)])
@pytest.mark.parametrize("drop_last", [False, True])
def test_a_run_that_was_left_inside_an_epoch_continues_there_with_other_micro_batches(
    before: int | None, now: int | None, drop_last: bool, prepared: Build, tmp_path: Path
) -> None:
    """Also where it makes its loaders early, to know the number of steps (Lightning#20550)."""
    what = trainable(lambda: prepared(drop_last), Net)
    _, whole = run(what, config(None))
    left, _ = run(what, config(before), leave_after=13, save=tmp_path / "left")
    assert isinstance(left[-1], Position)
    assert left[-1].epoch == 2
    _, continued = run(what, config(now), tmp_path / "left")
    assert_alike(continued, whole)


def test_a_run_continues_after_an_epoch_with_other_micro_batches(build: Build, tmp_path: Path) -> None:
    what = trainable(lambda: build(False), Net)
    _, whole = run(what, config(None))
    first = Fit(as_trainable(what), None, config(None))
    run_through(first, lambda found: bool(first.save(tmp_path)))  # and ends there
    _, continued = run(what, config(2), tmp_path)
    assert_alike(continued, whole)


class Counted(DataLoader[Any]):
    """A loader that has a position in a form of its own."""

    def state_dict(self) -> dict[str, Any]:
        return {"yielded": 3}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


def test_a_position_of_another_loader_is_refused_with_other_micro_batches(tmp_path: Path) -> None:
    class Data(Dicts):
        def train_dataloader(self) -> DataLoader[Any]:
            return Counted(super().train_dataloader().dataset, self.batch_size)

    class Unplanned(Net):
        """Its loader takes a position, which one that is made with the optimizers does not."""

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    what = trainable(lambda: Data(False), Unplanned)
    run(what, config(None), leave_after=5, save=tmp_path / "left")
    with pytest.raises(CannotTrain, match="inside an epoch, where the loader of the data can't continue"):
        run(what, config(4), tmp_path / "left")


def test_a_limit_of_steps_holds(build: Build) -> None:
    what = trainable(lambda: build(True), Net)
    for micro_batch in (None, 2):
        seen, fit = run(what, config(micro_batch, steps_per_epoch=4))
        assert [each.epoch for each in seen if isinstance(each, Report)] == [1, 2, 3]
        assert fit._trainer is not None
        assert fit._trainer.global_step == 12


class Endless(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(9))


@pytest.mark.parametrize(
    ("loader", "workers", "expected"),
    [
        (DataLoader(TensorDataset(torch.zeros(10)), 4), 1, (10, False)),
        (DataLoader(TensorDataset(torch.zeros(11)), 4, drop_last=True), 2, (6, True)),
        (
            DataLoader(
                TensorDataset(torch.zeros(9)),
                batch_size=None,
                sampler=BatchSampler(RandomSampler(range(9)), 4, drop_last=False),
            ),
            1,
            (9, False),
        ),
        (DataLoader(Endless(), 4), 1, None),
        (DataLoader(TensorDataset(torch.zeros(9)), batch_size=None), 1, None),
        ([1, 2], 1, None),
    ],
    ids=["plain", "of two workers", "batches by a sampler", "iterable", "no batches", "a list"],
)
def test_the_rows_of_an_epoch_are_those_of_the_loader(loader: Any, workers: int, expected: Any) -> None:
    assert batches.rows_of_epoch(loader, workers) == expected


def test_it_is_there_only_where_a_batch_is_split(build: Build) -> None:
    def callbacks(micro_batch: int) -> list[Any]:
        fit = run(trainable(lambda: build(False), Net), config(micro_batch, max_epochs=1))[1]
        assert fit._trainer is not None
        return [each for each in vars(fit._trainer)["callbacks"] if isinstance(each, MicroBatches)]

    assert (len(callbacks(BATCH)), len(callbacks(4))) == (0, 1)
