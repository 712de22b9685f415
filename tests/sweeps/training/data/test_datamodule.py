"""Prepared rows, batch by batch: their order, their loader workers, and how they go on."""

from __future__ import annotations

import contextlib
import gc
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch

from sweeps.training.config import FitConfig
from sweeps.training.data.datamodule import Columns, ParquetDataModule, seed_of_run
from sweeps.training.data.sampler import Batches, Slice
from sweeps.training.data.shards import NotPrepared
from sweeps.training.lightning_internals import WHOLE_CHECKPOINT
from sweeps.training.report import Report
from sweeps.training.runs.fit_loop import Fit
from tests.support.trainables import as_trainable, run_through
from tests.sweeps.training.data.numbered import data_set, numbers_of, reader

# Batches.


@pytest.mark.parametrize("loader_workers", [0, 1])
def test_a_transform_is_told_split_and_epoch_and_makes_the_batch(loader_workers: int, folder: Path) -> None:
    def doubled(split: str, epoch: int, batch: Columns) -> Columns:
        assert split == "train"
        return {"twice": np.repeat(batch["row"], 2), "epoch": np.array([epoch])}

    data = ParquetDataModule(folder, 10, loader_workers=loader_workers, transform=doubled)
    plain = list(ParquetDataModule(folder, 10).train_dataloader())
    made = list(data.train_dataloader())
    assert [list(batch) for batch in made] == [["twice", "epoch"]] * 7
    for batch, stored in zip(made, plain, strict=True):
        assert torch.equal(batch["twice"][::2], stored["row"])
        assert batch["epoch"].item() == 0


def test_what_a_transform_makes_may_begin_inside_a_batch_and_so_that_is_not_pinned(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no GPU: what would be pinned is noted."""
    pinned: set[bool] = set()
    empty = torch.empty

    def noted(*arguments: Any, pin_memory: bool, **more: Any) -> torch.Tensor:
        pinned.add(pin_memory)
        return empty(*arguments, **more)

    def later(_split: str, _epoch: int, batch: Columns) -> Columns:
        return {"row": batch["row"][1:]}

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for transform, count in ((None, 5), (later, 4)):
        pinned.clear()
        rows: Any = ParquetDataModule(folder, 10, transform=transform).train_dataloader().dataset
        with monkeypatch.context() as patch:
            patch.setattr(torch, "empty", noted)
            assert len(rows[Slice(0, 0, 5)]["row"]) == count
        assert pinned == {transform is None}


def test_a_stop_iteration_of_a_transform_does_not_end_the_epoch(folder: Path) -> None:
    def broken(_split: str, _epoch: int, _batch: Columns) -> Columns:
        return next(iter(()))

    data = ParquetDataModule(folder, 10, transform=broken)
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(data.train_dataloader())


def test_an_epoch_is_in_another_order_and_the_same_one_is_not(folder: Path) -> None:
    def order(seed: int, epoch: int) -> list[int]:
        rows, batches = reader(folder, seed), Batches(64, 16)
        batches.set_epoch(epoch)
        return [number for wanted in batches for number in rows[wanted]["row"].tolist()]

    orders = [order(seed, epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert all(a != b for a, b in itertools.combinations(orders, 2))
    assert order(1, 1) == orders[3]
    assert orders[0] != sorted(orders[0])


def test_the_order_follows_the_seed_of_the_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_run(seed: int) -> list[list[int]]:
        models: list[Scored] = []

        def build_model(_: object) -> Scored:
            models.append(Scored())
            return models[-1]

        trainable: Any = SimpleNamespace(
            build_model=build_model, build_data=lambda _: OnlyTraining(folder, 16)
        )
        run_through(
            Fit(as_trainable(trainable), None, FitConfig(max_epochs=2, metric="score", mode="max", seed=seed))
        )
        return models[0].read

    def of_module(seed: int | None) -> list[list[int]]:
        return numbers_of(list(ParquetDataModule(folder, 16, seed=seed).train_dataloader()))

    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    assert of_module(None) == of_module(0)
    first, second = of_run(7), of_run(8)
    assert (first[:4], second[:4]) == (of_module(7), of_module(8))
    assert first[:4] != second[:4]
    assert first == of_run(7)


def test_rows_leave_their_row_group(folder: Path) -> None:
    """Not only the groups are shuffled: a batch is not a run of neighbours."""
    rows, batches = reader(folder, window_rows=32), Batches(64, 16)
    steps = [abs(a - b) for wanted in batches for a, b in itertools.pairwise(rows[wanted]["row"].tolist())]
    assert sum(step == 1 for step in steps) < len(steps) / 3


def test_shards_that_are_read_leave_no_file_open(tmp_path: Path) -> None:
    """A process may have a thousand open, and a data set more shards."""
    data_set(tmp_path, *[5] * 40)
    rows = reader(tmp_path)
    assert sorted(rows[Slice(0, 0, 200)]["row"].tolist()) == list(range(200))
    opened = [each.readlink() for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert not [each for each in opened if each.is_relative_to(tmp_path)]


# The loader.


@pytest.mark.parametrize("loader_workers", [1, 2, 3])
def test_loader_workers_change_neither_batches_nor_their_order(
    loader_workers: int, folder: Path, request: pytest.FixtureRequest
) -> None:
    gc.freeze()  # as in a run: what other tests have left must not be collected in a worker, which is a fork
    request.addfinalizer(gc.unfreeze)
    alone, several = (
        ParquetDataModule(folder, 10, seed=3, loader_workers=workers).train_dataloader()
        for workers in (0, loader_workers)
    )
    for epoch in range(3):
        for loader in (alone, several):
            loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        assert numbers_of(list(several)) == numbers_of(list(alone))


class Reading(pl.LightningModule):
    """Learns nothing; keeps what it read."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.read: list[list[int]] = []

    def training_step(self, batch: dict[str, torch.Tensor], index: int) -> torch.Tensor:
        self.read.append(batch["row"].tolist())
        return self.weight * batch["point"].mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class OnlyTraining(ParquetDataModule):
    """Without the rows that the module above does not read."""

    val_dataloader = pl.LightningDataModule.val_dataloader
    test_dataloader = pl.LightningDataModule.test_dataloader


@pytest.mark.parametrize("loader_workers", [0, 2])
def test_lightning_tells_the_epoch(loader_workers: int, folder: Path) -> None:
    model = Reading()
    trainer = pl.Trainer(
        max_epochs=3, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu"
    )
    trainer.fit(model, OnlyTraining(folder, 16, loader_workers=loader_workers))
    epochs = [[number for batch in model.read[first : first + 4] for number in batch] for first in (0, 4, 8)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(64))] * 3
    assert epochs[0] != epochs[1] != epochs[2]
    expected = ParquetDataModule(folder, 16).train_dataloader()
    expected.sampler.set_epoch(2)  # type: ignore[attr-defined]
    assert model.read[8:] == numbers_of(list(expected))


# Going on in the middle of an epoch.


class Saving(pl.Callback):
    """Saves after so many steps, and stops there as if the power had gone."""

    def __init__(self, path: Path, steps: int) -> None:
        self._path, self._steps = path, steps

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self._steps:
            trainer.save_checkpoint(self._path)
            raise KeyboardInterrupt


def read_in(
    folder: Path, loader_workers: int, *callbacks: pl.Callback, resume: Path | None = None
) -> list[list[int]]:
    """The batches of three epochs, as a real Trainer reads them; of those of a broken run, what it read."""
    model = Reading()
    trainer = pl.Trainer(
        max_epochs=3,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
        callbacks=list(callbacks),
    )
    with contextlib.suppress(SystemExit, KeyboardInterrupt):
        trainer.fit(
            model,
            OnlyTraining(folder, 10, seed=5, loader_workers=loader_workers),
            ckpt_path=resume,
            **WHOLE_CHECKPOINT,
        )
    return model.read


@pytest.mark.parametrize("loader_workers", [0, 2])
@pytest.mark.parametrize("steps", [1, 3, 7, 10, 14, 20])
def test_an_epoch_goes_on_in_its_middle_with_the_batches_that_follow(
    steps: int, loader_workers: int, folder: Path, tmp_path: Path
) -> None:
    """7 batches an epoch: in the first, behind its last, and in later ones."""
    whole = read_in(folder, 0)
    assert len(whole) == 21
    before = read_in(folder, loader_workers, Saving(tmp_path / "step.ckpt", steps))
    after = read_in(folder, loader_workers, resume=tmp_path / "step.ckpt")
    assert before == whole[:steps]
    assert before + after == whole


def test_what_was_saved_at_the_end_of_an_epoch_leaves_nothing_out_of_the_next(folder: Path) -> None:
    loader = ParquetDataModule(folder, 10).train_dataloader()
    all_of_it = list(itertools.chain(*numbers_of(list(loader))))
    loader.load_state_dict(loader.state_dict())  # type: ignore[attr-defined]
    loader.sampler.set_epoch(1)  # type: ignore[attr-defined]
    assert sorted(itertools.chain(*numbers_of(list(loader)))) == sorted(all_of_it)


def test_a_position_is_one_in_rows(folder: Path) -> None:
    loader: Any = ParquetDataModule(folder, 5).train_dataloader()
    whole = numbers_of(list(loader))
    loader.load_state_dict({"epoch": 0, "batches": 2, "batch_size": 10})
    assert numbers_of(list(loader)) == whole[4:]


def test_what_workers_have_read_ahead_is_not_lost(folder: Path) -> None:
    loader = ParquetDataModule(folder, 10, loader_workers=2).train_dataloader()
    batches = iter(loader)
    next(batches), next(batches)
    expected = {"epoch": 0, "batches": 2, "batch_size": 10}
    assert loader.state_dict() == expected  # type: ignore[attr-defined]


@pytest.mark.parametrize("loader_workers", [0, 1])
def test_a_loader_draws_none_of_the_numbers_to_come(loader_workers: int, folder: Path) -> None:
    """A run that is resumed inside an epoch makes the iterator there, amid the numbers of the epoch."""
    loader = ParquetDataModule(folder, 10, loader_workers=loader_workers).train_dataloader()
    before = torch.get_rng_state()
    next(iter(loader))
    assert torch.equal(torch.get_rng_state(), before)


class Scored(Reading):
    """Logs a metric, so that ours can train it."""

    def on_train_epoch_end(self) -> None:
        self.log("score", float(self.current_epoch))


@pytest.mark.parametrize("loader_workers", [0, 2])
def test_our_fit_has_another_order_in_each_epoch_and_goes_on_with_it(
    loader_workers: int, folder: Path, tmp_path: Path
) -> None:
    models: list[Scored] = []

    def build_model(_: object) -> Scored:
        models.append(Scored())
        return models[-1]

    trainable: Any = SimpleNamespace(
        build_model=build_model,
        build_data=lambda _: OnlyTraining(folder, 16, loader_workers=loader_workers),
    )
    config = FitConfig(max_epochs=3, metric="score", mode="max")
    run_through(Fit(as_trainable(trainable), None, config))
    whole = models[0].read
    assert [sorted(itertools.chain(*whole[first : first + 4])) for first in (0, 4, 8)] == [
        list(range(64))
    ] * 3
    assert whole[:4] != whole[4:8] != whole[8:]
    stopped = Fit(as_trainable(trainable), None, config)

    def save(epoch: Report) -> bool:
        if epoch.epoch == 2:
            stopped.save(tmp_path)
        return epoch.epoch < 2

    run_through(stopped, save)
    run_through(Fit(as_trainable(trainable), None, config, tmp_path))
    assert models[1].read + models[2].read == whole


@pytest.mark.parametrize("stopped_after", [1, 2])
def test_an_epoch_that_is_a_part_of_a_pass_reads_on_with_the_rows_that_are_left(
    stopped_after: int, folder: Path, tmp_path: Path
) -> None:
    """Four batches a pass, three an epoch: of these Lightning tells the loader the number."""
    models: list[Scored] = []

    def build_model(_: object) -> Scored:
        models.append(Scored())
        return models[-1]

    trainable: Any = SimpleNamespace(build_model=build_model, build_data=lambda _: OnlyTraining(folder, 16))
    config = FitConfig(max_epochs=4, metric="score", mode="max", val_check_interval=3)
    run_through(Fit(as_trainable(trainable), None, config))
    whole = models[0].read
    assert [sorted(itertools.chain(*whole[first : first + 4])) for first in (0, 4, 8)] == [
        list(range(64))
    ] * 3
    stopped = Fit(as_trainable(trainable), None, config)

    def save(epoch: Report) -> bool:
        if epoch.epoch == stopped_after:
            stopped.save(tmp_path)
        return epoch.epoch < stopped_after

    run_through(stopped, save)
    run_through(Fit(as_trainable(trainable), None, config, tmp_path))
    assert models[1].read + models[2].read == whole


# What is read.


def test_a_split_that_is_not_there_is_named_with_those_that_are(folder: Path) -> None:
    with pytest.raises(NotPrepared, match="no split 'val'; it has train"):
        ParquetDataModule(folder, 2).val_dataloader()


def test_a_batch_can_be_written_into(folder: Path) -> None:
    rows = reader(folder, is_shuffled=False)
    rows[Slice(0, 0, 5)]["image"].zero_()
    assert rows[Slice(0, 0, 5)]["image"].any()


def test_the_seed_of_a_run_is_the_one_that_lightning_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PL_GLOBAL_SEED", "17")
    assert seed_of_run() == 17


def test_the_seed_of_a_run_is_0_where_nothing_was_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    assert seed_of_run() == 0
