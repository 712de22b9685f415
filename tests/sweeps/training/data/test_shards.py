"""Shards and their manifest: what is written is read again, and what is broken is named."""

from __future__ import annotations

import errno
import json
import os
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.common import atomic_io
from sweeps.common.errors import causes
from sweeps.training.data import shards
from sweeps.training.data.datamodule import ParquetDataModule
from sweeps.training.data.sampler import Slice
from sweeps.training.data.shards import Column, Manifest, NotPrepared
from tests.sweeps.training.data.numbered import COLUMNS, data_set, reader, row_groups_of, rows_from


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


@pytest.mark.parametrize(
    "other",
    [
        {"write_batch_size": 10, "data_page_size": 1},
        {"compression": "zstd"},
        {"use_dictionary": True},
        {"column_encoding": {"image": "BYTE_STREAM_SPLIT"}},  # other bytes of the same size
        {"column_encoding": {"image": "DELTA_BYTE_ARRAY"}},
    ],
    ids=["pages", "compressed", "dictionary", "streams", "deltas"],
)
def test_a_shard_that_was_written_in_another_way_is_named(other: dict[str, Any], tmp_path: Path) -> None:
    data_set(tmp_path, 50, group_rows=50)
    table = pq.read_table(tmp_path / "train-00000.parquet")
    one_page = {"use_dictionary": False, "compression": "none", "write_statistics": False}
    pq.write_table(table, tmp_path / "other.parquet", **{**one_page, **other})
    replace(tmp_path, (tmp_path / "other.parquet").read_bytes())
    expected = (
        r"^/\S*00000\.parquet: column image of row group 0 is not one plain page; prepare the data again$"
    )
    with pytest.raises(NotPrepared, match=expected):
        reader(tmp_path)[Slice(0, 0, 7)]
    with pytest.raises(NotPrepared, match=expected) as raised:  # not with a loader worker's traceback in it
        list(ParquetDataModule(tmp_path, 7, loader_workers=1).train_dataloader())
    for error in causes(raised.value):  # a loader left to the garbage collector waits 5 s for its worker
        traceback.clear_frames(error.__traceback__)


def test_two_pages_are_never_taken_for_one(tmp_path: Path) -> None:
    """The smallest that there are: a byte each."""
    columns = {"image": Column("uint8", (1,))}
    table = shards.to_table({"image": np.array([[1], [2]], np.uint8)}, columns)
    pq.write_table(
        table, tmp_path / "a", compression="none", use_dictionary=False, write_statistics=False,
        write_batch_size=1, data_page_size=1,
    )  # fmt: skip
    shard = shards.Shard("a", 2, (tmp_path / "a").stat().st_size, "")
    with pytest.raises(NotPrepared, match="not one plain page"):
        shards.MappedShard(tmp_path, shard, columns).read_group(0)


@pytest.mark.slow
def test_a_shard_that_is_gone_while_it_trains_is_named_without_a_workers_traceback(tmp_path: Path) -> None:
    data_set(tmp_path, 50)
    loader = ParquetDataModule(tmp_path, 7, loader_workers=1).train_dataloader()
    (tmp_path / "train-00000.parquet").unlink()
    with pytest.raises(NotPrepared, match=r"^/\S*train-00000\.parquet is missing$"):
        list(loader)


def test_a_damaged_shard_is_found_by_its_checksum(tmp_path: Path) -> None:
    manifest = data_set(tmp_path, 50)
    assert shards.checksum_faults(tmp_path, manifest) == {}
    path = tmp_path / "train-00000.parquet"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    assert shards.checksum_faults(tmp_path, manifest) == {path: f"{path}: damaged: its checksum differs"}


def test_a_shard_that_a_failing_disk_does_not_give_is_named_as_the_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = data_set(tmp_path, 50, 50)
    first, second = (tmp_path / shard.file for shard in manifest.shards)
    second.write_bytes(bytes(second.stat().st_size))

    def sha256_of(path: Path, own: Callable[[Path], str] = atomic_io.sha256_of) -> str:
        if path == first:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return own(path)

    monkeypatch.setattr(atomic_io, "sha256_of", sha256_of)
    assert shards.checksum_faults(tmp_path, manifest) == {
        first: f"{first}: damaged: it can't be read (Input/output error)",
        second: f"{second}: damaged: its checksum differs",
    }


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
        with row_groups_of(group_rows):
            shard = shards.write_shard(Path(folder), "train.parquet", {"value": values}, columns)
        Manifest(columns=columns, splits={"train": [shard]}).write(Path(folder))
        read = reader(Path(folder), is_shuffled=False)[Slice(0, 0, rows)]["value"]
    assert read.numpy().dtype == values.dtype
    assert np.array_equal(read.numpy(), values)


def test_the_values_of_a_row_group_lie_beside_one_another_whatever_their_size(tmp_path: Path) -> None:
    """One page a group: Parquet's writer would begin another at 1 MiB."""
    columns = {"image": Column("uint8", (512, 1024))}
    images = np.random.default_rng(0).integers(0, 256, (9, 512, 1024), dtype=np.uint8)
    with row_groups_of(5):
        written = shards.write_shard(tmp_path, "a.parquet", {"image": images}, columns)
    shard = shards.MappedShard(tmp_path, written, columns)
    assert shard.rows_of_groups == [5, 4]
    read = [shard.read_group(group)["image"] for group in range(2)]
    assert [len(values) for values in read] == [5, 4]
    assert np.array_equal(np.concatenate(read).reshape(images.shape), images)


def test_rows_that_are_not_what_the_columns_say_are_refused(tmp_path: Path) -> None:
    rows = rows_from(0, 4)
    with pytest.raises(ValueError, match=r"rows are .*, the data set has"):
        shards.write_shard(tmp_path, "a.parquet", {**rows, "row": rows["row"].astype(np.int32)}, COLUMNS)
    with pytest.raises(ValueError, match="columns of one shard have 3, 4 rows"):
        shards.write_shard(tmp_path, "a.parquet", {**rows, "row": rows["row"][:3]}, COLUMNS)
    assert list(tmp_path.iterdir()) == []
