"""Prepared rows: every row once, for any ranks, workers and batch sizes; and broken shards, named."""

from __future__ import annotations

import contextlib
import itertools
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.common.errors import CannotTrain
from sweeps.training.config import FitConfig
from sweeps.training.data import shards
from sweeps.training.data.datamodule import Columns, ParquetDataModule, PreparedRows
from sweeps.training.data.sampler import Batches, Slice
from sweeps.training.data.shards import Column, Manifest, NotPrepared
from sweeps.training.epoch_callback import Epoch
from sweeps.training.fit_loop import Fit

COLUMNS = {"image": Column("uint8", (2, 3)), "row": Column("int64"), "point": Column("float32", (4,))}


def rows_from(first: int, count: int) -> dict[str, np.ndarray[Any, Any]]:
    numbers = np.arange(first, first + count)
    return {
        "image": np.repeat(numbers % 251, 6).astype(np.uint8).reshape(count, 2, 3),
        "row": numbers.astype(np.int64),
        "point": np.repeat(numbers / 7, 4).astype(np.float32).reshape(count, 4),
    }


def data_set(folder: Path, *shard_rows: int, group_rows: int = 5, split: str = "train") -> Manifest:
    """Rows numbered from 0 on, in shards of so many."""
    firsts = itertools.accumulate(shard_rows, initial=0)
    written = [
        shards.write_shard(
            folder, f"{split}-{number:05d}.parquet", rows_from(first, rows), COLUMNS, group_rows
        )
        for number, (first, rows) in enumerate(zip(firsts, shard_rows, strict=False))
    ]
    manifest = Manifest(columns=COLUMNS, splits={split: written})
    manifest.write(folder)
    return manifest


def reader(folder: Path, seed: int = 0, is_shuffled: bool = True, window_rows: int = 8) -> PreparedRows:
    return PreparedRows(
        folder, Manifest.read(folder), "train", seed=seed, is_shuffled=is_shuffled, window_rows=window_rows
    )


def numbers_of(batches: list[dict[str, torch.Tensor]]) -> list[list[int]]:
    return [batch["row"].tolist() for batch in batches]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """23 + 1 + 40 rows in groups of 5."""
    folder = tmp_path_factory.mktemp("prepared")
    data_set(folder, 23, 1, 40)
    return folder


# Batches.


@settings(max_examples=300, deadline=None)
@given(
    rows=st.integers(1, 300), ranks=st.integers(1, 9), batch_size=st.integers(1, 70), drop_last=st.booleans()
)
def test_all_ranks_have_as_many_batches_and_every_row_is_in_one(
    rows: int, ranks: int, batch_size: int, drop_last: bool
) -> None:
    if rows < ranks:
        with pytest.raises(
            CannotTrain, match=f"{rows} rows for {ranks} workers: each worker needs at least one row"
        ):
            Batches(rows, batch_size, rank=0, ranks=ranks)
        return
    shares = [Batches(rows, batch_size, rank=rank, ranks=ranks, drop_last=drop_last) for rank in range(ranks)]
    found = [list(share) for share in shares]
    assert {len(batches) for batches in found} == {len(share) for share in shares}
    assert len({len(share) for share in shares}) == 1
    positions = [p for batches in found for batch in batches for p in range(batch.first, batch.last)]
    sizes = {batch.last - batch.first for batches in found for batch in batches}
    assert len(set(positions)) == len(positions)
    assert set(positions) <= set(range(rows))
    if drop_last:
        assert sizes <= {batch_size}
        assert rows - len(positions) < ranks * (batch_size + 1)
    else:
        assert sorted(positions) == list(range(rows))
        assert 1 <= min(sizes) <= max(sizes) <= max(batch_size, 2 if rows % ranks else 1)


@settings(max_examples=60, deadline=None)
@given(
    batch_size=st.integers(1, 70),
    ranks=st.integers(1, 5),
    seed=st.integers(0, 3),
    epoch=st.integers(0, 5),
    window_rows=st.integers(1, 100),
    is_shuffled=st.booleans(),
)
def test_every_row_is_read_once_in_an_epoch(
    folder: Path, batch_size: int, ranks: int, seed: int, epoch: int, window_rows: int, is_shuffled: bool
) -> None:
    read = []
    for rank in range(ranks):
        rows, batches = (
            reader(folder, seed, is_shuffled, window_rows),
            Batches(64, batch_size, rank=rank, ranks=ranks),
        )
        batches.set_epoch(epoch)
        read += [rows[wanted] for wanted in batches]
    numbers = [number for batch in numbers_of(read) for number in batch]
    assert sorted(numbers) == list(range(64))
    assert is_shuffled or numbers == list(range(64))
    for batch in read:
        expected = rows_from(0, 64)
        for name, values in batch.items():
            assert torch.equal(values, torch.from_numpy(expected[name][batch["row"].numpy()]))


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
        Fit(trainable, None, FitConfig(max_epochs=2, metric="score", mode="max", seed=seed)).run(
            lambda _: True
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
    opened = len(list(Path("/proc/self/fd").iterdir()))
    rows = reader(tmp_path)
    assert sorted(rows[Slice(0, 0, 200)]["row"].tolist()) == list(range(200))
    assert len(list(Path("/proc/self/fd").iterdir())) == opened


# The loader.


@pytest.mark.parametrize("loader_workers", [1, 2, 3])
def test_loader_workers_change_neither_batches_nor_their_order(loader_workers: int, folder: Path) -> None:
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
            weights_only=False,
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


def test_what_workers_have_read_ahead_is_not_lost(folder: Path) -> None:
    loader = ParquetDataModule(folder, 10, loader_workers=2).train_dataloader()
    batches = iter(loader)
    next(batches), next(batches)
    assert loader.state_dict() == {"epoch": 0, "batches": 2}  # type: ignore[attr-defined]


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
    Fit(trainable, None, config).run(lambda _: True)
    whole = models[0].read
    assert [sorted(itertools.chain(*whole[first : first + 4])) for first in (0, 4, 8)] == [
        list(range(64))
    ] * 3
    assert whole[:4] != whole[4:8] != whole[8:]
    stopped = Fit(trainable, None, config)

    def save(epoch: Epoch) -> bool:
        if epoch.epoch == 2:
            stopped.save(tmp_path)
        return epoch.epoch < 2

    stopped.run(save)
    Fit(trainable, None, config, tmp_path).run(lambda _: True)
    assert models[1].read + models[2].read == whole


# What is not whole.


def test_without_a_manifest_there_is_no_data_set(tmp_path: Path) -> None:
    data_set(tmp_path, 5)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(NotPrepared, match=rf"no prepared data in {tmp_path}: manifest\.json is missing"):
        ParquetDataModule(tmp_path, 2)


def test_a_manifest_of_another_version_is_refused(tmp_path: Path) -> None:
    data_set(tmp_path, 5)
    content = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**content, "format": 99}))
    with pytest.raises(NotPrepared, match="made by another version of this program; prepare the data again"):
        ParquetDataModule(tmp_path, 2)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"columns": None}, "AttributeError"),
        ({"columns": {"row": {"dtype": "int65", "shape": []}}}, "TypeError"),
        ({"columns": {"row": {"dtype": "int64"}}}, "KeyError: 'shape'"),
        ({"splits": {"train": [{"file": "train-00000.parquet"}]}}, "KeyError: 'rows'"),
        ({"splits": {"train": [{"file": "a", "rows": "b", "size_bytes": 1, "sha256": ""}]}}, "ValueError"),
        ({"splits": ["train"]}, "AttributeError"),
        ({"more": 1}, "TypeError"),
    ],
)
def test_a_manifest_that_is_damaged_is_named(damage: dict[str, Any], said: str, tmp_path: Path) -> None:
    data_set(tmp_path, 5)
    content = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**content, **damage}))
    with pytest.raises(NotPrepared, match=rf"manifest\.json: damaged \({said}.*\)"):
        ParquetDataModule(tmp_path, 2)


def test_a_manifest_that_lacks_an_entry_is_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 1}')
    with pytest.raises(NotPrepared, match=r"manifest\.json: damaged \(KeyError: 'columns'\)"):
        ParquetDataModule(tmp_path, 2)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    data_set(tmp_path, 5, 5)
    (tmp_path / "train-00001.parquet").unlink()
    with pytest.raises(NotPrepared, match=r"train-00001\.parquet is missing"):
        ParquetDataModule(tmp_path, 2)


def test_a_shard_that_was_cut_off_is_named(tmp_path: Path) -> None:
    data_set(tmp_path, 5, 5)
    path = tmp_path / "train-00001.parquet"
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(
        NotPrepared, match=r"train-00001\.parquet: [\d,]+ bytes, the manifest says [\d,]+: cut off"
    ):
        ParquetDataModule(tmp_path, 2)


def replace(folder: Path, content: bytes) -> None:
    """The only shard's content, of whatever size, with a manifest that knows its size."""
    (folder / "new").write_bytes(content)
    (folder / "new").rename(folder / "train-00000.parquet")  # who has mapped the old one still reads that
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["splits"]["train"][0]["size_bytes"] = len(content)
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "content",
    [b"PAR1 and then nothing of the kind", b"PAR1" + b"\xff" * 64 + b"\x40\0\0\0PAR1"],
    ids=["no end", "an end that Thrift can't read"],
)
def test_a_shard_that_is_no_parquet_is_named(content: bytes, tmp_path: Path) -> None:
    data_set(tmp_path, 5)
    replace(tmp_path, content)
    path = tmp_path / "train-00000.parquet"
    expected = (  # one line, whatever Arrow says
        rf"^{path}: it is not readable as Parquet \([^\n]+\S\)\. Delete it and prepare the data again: "
        rf"rm {path}, then sweeps prepare NAME$"
    )
    with pytest.raises(NotPrepared, match=expected):
        ParquetDataModule(tmp_path, 2).train_dataloader()


def test_a_shard_of_other_columns_is_named_with_both(tmp_path: Path) -> None:
    data_set(tmp_path, 5)
    pq.write_table(pa.table({"row": [1, 2]}), tmp_path / "other.parquet")
    replace(tmp_path, (tmp_path / "other.parquet").read_bytes())
    expected = r"train-00000\.parquet: its columns are row \(int64\); the data set has image \(fixed_size"
    with pytest.raises(NotPrepared, match=expected):
        ParquetDataModule(tmp_path, 2).train_dataloader()


def test_a_shard_that_was_written_in_another_way_is_named(tmp_path: Path) -> None:
    data_set(tmp_path, 50, group_rows=50)
    table = pq.read_table(tmp_path / "train-00000.parquet")
    for other in ({"write_batch_size": 10, "data_page_size": 1}, {"compression": "zstd"}):
        one_page = {"use_dictionary": False, "compression": "none"}
        pq.write_table(table, tmp_path / "other.parquet", **{**one_page, **other})
        replace(tmp_path, (tmp_path / "other.parquet").read_bytes())
        expected = (
            r"^/\S*00000\.parquet: column image of row group 0 is not one plain page; prepare the data again$"
        )
        with pytest.raises(NotPrepared, match=expected):
            reader(tmp_path)[Slice(0, 0, 7)]
        with pytest.raises(NotPrepared, match=expected):  # not with a loader worker's traceback in it
            list(ParquetDataModule(tmp_path, 7, loader_workers=1).train_dataloader())


def test_a_damaged_shard_is_found_by_its_checksum(tmp_path: Path) -> None:
    manifest = data_set(tmp_path, 50)
    assert shards.checksum_faults(tmp_path, manifest) == {}
    path = tmp_path / "train-00000.parquet"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    assert shards.checksum_faults(tmp_path, manifest) == {path: f"{path}: damaged: its checksum differs"}


def test_a_split_that_is_not_there_is_named_with_those_that_are(folder: Path) -> None:
    with pytest.raises(NotPrepared, match="no split 'val'; it has train"):
        ParquetDataModule(folder, 2).val_dataloader()


# Writing.


def test_what_is_written_is_uncompressed_without_a_dictionary_and_says_what_it_is(folder: Path) -> None:
    file = pq.ParquetFile(folder / "train-00000.parquet")
    for column in range(len(COLUMNS)):
        chunk = file.metadata.row_group(0).column(column)
        assert chunk.compression == "UNCOMPRESSED"
        assert not chunk.has_dictionary_page
    assert file.schema_arrow.field("image").type == pa.binary(6)
    assert file.schema_arrow.field("row").type == pa.int64()
    assert file.schema_arrow.field("image").metadata == {b"dtype": b"uint8", b"shape": b"[2, 3]"}


@settings(max_examples=40, deadline=None)
@given(
    dtype=st.sampled_from(["bool", "uint8", "float16", "int32", "float64"]),
    shape=st.sampled_from([(), (1,), (3,), (17, 5), (300, 7)]),
    rows=st.integers(1, 40),
    group_rows=st.integers(1, 40),
)
def test_what_is_read_is_what_was_written(
    dtype: str, shape: tuple[int, ...], rows: int, group_rows: int
) -> None:
    values = np.random.default_rng(rows).integers(0, 100, (rows, *shape)).astype(dtype)
    with tempfile.TemporaryDirectory() as folder:
        columns = {"value": Column(dtype, shape)}
        shard = shards.write_shard(Path(folder), "train.parquet", {"value": values}, columns, group_rows)
        Manifest(columns=columns, splits={"train": [shard]}).write(Path(folder))
        read = reader(Path(folder), is_shuffled=False)[Slice(0, 0, rows)]["value"]
    assert read.numpy().dtype == values.dtype
    assert np.array_equal(read.numpy(), values)


def test_the_values_of_a_row_group_lie_beside_one_another_whatever_their_size(tmp_path: Path) -> None:
    """One page a group: Parquet's writer would begin another at 1 MiB."""
    columns = {"image": Column("uint8", (512, 1024))}
    images = np.random.default_rng(0).integers(0, 256, (9, 512, 1024), dtype=np.uint8)
    shards.write_shard(tmp_path, "a.parquet", {"image": images}, columns, group_rows=5)
    content = np.fromfile(tmp_path / "a.parquet", np.uint8)
    metadata = pq.ParquetFile(tmp_path / "a.parquet").metadata
    read = [shards.mapped(content, metadata, group, "image", 2**19) for group in range(2)]
    assert [len(values) for values in read] == [5, 4]
    assert np.array_equal(np.concatenate(read).reshape(images.shape), images)


def test_a_batch_can_be_written_into(folder: Path) -> None:
    rows = reader(folder, is_shuffled=False)
    rows[Slice(0, 0, 5)]["image"].zero_()
    assert rows[Slice(0, 0, 5)]["image"].any()


def test_rows_that_are_not_what_the_columns_say_are_refused(tmp_path: Path) -> None:
    rows = rows_from(0, 4)
    with pytest.raises(ValueError, match=r"rows are .*, the data set has"):
        shards.write_shard(tmp_path, "a.parquet", {**rows, "row": rows["row"].astype(np.int32)}, COLUMNS)
    with pytest.raises(ValueError, match="columns of one shard have 3, 4 rows"):
        shards.write_shard(tmp_path, "a.parquet", {**rows, "row": rows["row"][:3]}, COLUMNS)
    assert list(tmp_path.iterdir()) == []
