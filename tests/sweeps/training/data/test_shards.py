"""Shards and their manifest: what is written is read again, and what is broken is named."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.training.data import shards
from sweeps.training.data.datamodule import PreparedDataModule
from sweeps.training.data.sampler import Slice
from sweeps.training.data.shards import Column, Manifest, NotPrepared
from tests.sweeps.training.data.numbered import COLUMNS, data_set, numbers_of, reader, rows_from


def test_without_a_manifest_there_is_no_data_set(tmp_path: Path) -> None:
    data_set(tmp_path, 5)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(NotPrepared, match=rf"no prepared data in {tmp_path}: manifest\.json is missing"):
        PreparedDataModule(tmp_path, 2)


def test_a_manifest_of_another_version_is_refused(tmp_path: Path) -> None:
    data_set(tmp_path, 5)
    content = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**content, "format": 99}))
    with pytest.raises(NotPrepared, match="made by another version of this program; prepare the data again"):
        PreparedDataModule(tmp_path, 2)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"columns": None}, "AttributeError"),
        ({"columns": {"row": {"dtype": "int65", "shape": []}}}, "TypeError"),
        ({"columns": {"row": {"dtype": "int64"}}}, "KeyError: 'shape'"),
        ({"splits": {"train": [{"file": "train-00000.arrow"}]}}, "KeyError: 'rows'"),
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
        PreparedDataModule(tmp_path, 2)


def test_a_manifest_that_lacks_an_entry_is_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 2}')
    with pytest.raises(NotPrepared, match=r"manifest\.json: damaged \(KeyError: 'columns'\)"):
        PreparedDataModule(tmp_path, 2)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    data_set(tmp_path, 5, 5)
    (tmp_path / "train-00001.arrow").unlink()
    with pytest.raises(NotPrepared, match=r"train-00001\.arrow is missing"):
        PreparedDataModule(tmp_path, 2)


def test_a_shard_that_was_cut_off_is_named(tmp_path: Path) -> None:
    data_set(tmp_path, 5, 5)
    path = tmp_path / "train-00001.arrow"
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(
        NotPrepared, match=r"train-00001\.arrow: [\d,]+ bytes, the manifest says [\d,]+: cut off"
    ):
        PreparedDataModule(tmp_path, 2)


def replace(folder: Path, content: bytes) -> None:
    """The only shard's content, of whatever size, with a manifest that knows its size."""
    (folder / "new").write_bytes(content)
    (folder / "new").rename(folder / "train-00000.arrow")  # who has mapped the old one still reads that
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["splits"]["train"][0]["size_bytes"] = len(content)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_a_shard_that_is_no_arrow_file_is_named(tmp_path: Path) -> None:
    data_set(tmp_path, 5)
    replace(tmp_path, b"ARROW1 and then nothing of the kind")
    path = tmp_path / "train-00000.arrow"
    expected = (  # one line, whatever Arrow says
        rf"^{path}: it is not readable as Arrow \([^\n]+\S\)\. Delete it and prepare the data again: "
        rf"rm {path}, then sweeps prepare NAME$"
    )
    with pytest.raises(NotPrepared, match=expected):
        PreparedDataModule(tmp_path, 2).train_dataloader()


def test_a_shard_of_other_columns_is_named_with_both(tmp_path: Path) -> None:
    data_set(tmp_path, 5)
    pa.feather.write_feather(pa.table({"row": [1, 2]}), tmp_path / "other", compression="uncompressed")
    replace(tmp_path, (tmp_path / "other").read_bytes())
    expected = r"train-00000\.arrow: its columns are row \(int64\); the data set has image \(fixed_size"
    with pytest.raises(NotPrepared, match=expected):
        PreparedDataModule(tmp_path, 2).train_dataloader()


def test_a_shard_that_is_cut_off_under_training_is_named_without_a_workers_traceback(tmp_path: Path) -> None:
    data_set(tmp_path, 50)
    loader = PreparedDataModule(tmp_path, 7, loader_workers=1).train_dataloader()
    (tmp_path / "train-00000.arrow").unlink()
    with pytest.raises(NotPrepared, match=r"^/\S*train-00000\.arrow is missing$"):
        list(loader)


def test_the_parquet_files_of_an_older_version_are_converted_once(tmp_path: Path) -> None:
    data_set(tmp_path, 33, 31)
    expected = numbers_of(list(PreparedDataModule(tmp_path, 10, seed=3).train_dataloader()))
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    for shard in manifest["splits"]["train"]:
        path = tmp_path / shard["file"]
        table, shard["file"] = pa.feather.read_table(path), path.with_suffix(".parquet").name
        path.unlink()
        pq.write_table(table, tmp_path / shard["file"], row_group_size=5)
        content = (tmp_path / shard["file"]).read_bytes()
        shard |= {"size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "format": 1}))
    with pytest.raises(NotPrepared, match="made by another version"):
        PreparedDataModule(tmp_path, 10)
    assert shards.convert_parquet(tmp_path)
    assert not shards.convert_parquet(tmp_path)
    assert not list(tmp_path.glob("*.parquet"))
    assert shards.checksum_faults(tmp_path, Manifest.read(tmp_path)) == {}
    assert numbers_of(list(PreparedDataModule(tmp_path, 10, seed=3).train_dataloader())) == expected


def test_a_damaged_shard_is_found_by_its_checksum(tmp_path: Path) -> None:
    manifest = data_set(tmp_path, 50)
    assert shards.checksum_faults(tmp_path, manifest) == {}
    path = tmp_path / "train-00000.arrow"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    assert shards.checksum_faults(tmp_path, manifest) == {path: f"{path}: damaged: its checksum differs"}


def test_what_is_written_says_what_it_is(folder: Path) -> None:
    schema = pa.feather.read_table(folder / "train-00000.arrow").schema
    assert schema.field("image").type == pa.binary(6)
    assert schema.field("row").type == pa.int64()
    assert schema.field("image").metadata == {b"dtype": b"uint8", b"shape": b"[2, 3]"}


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
        shard = shards.write_shard(Path(folder), "train.arrow", {"value": values}, columns, group_rows)
        Manifest(columns=columns, splits={"train": [shard]}).write(Path(folder))
        read = reader(Path(folder), is_shuffled=False)[Slice(0, 0, rows)]["value"]
    assert read.numpy().dtype == values.dtype
    assert np.array_equal(read.numpy(), values)


def test_rows_that_are_not_what_the_columns_say_are_refused(tmp_path: Path) -> None:
    rows = rows_from(0, 4)
    with pytest.raises(ValueError, match=r"rows are .*, the data set has"):
        shards.write_shard(tmp_path, "a.arrow", {**rows, "row": rows["row"].astype(np.int32)}, COLUMNS)
    with pytest.raises(ValueError, match="columns of one shard have 3, 4 rows"):
        shards.write_shard(tmp_path, "a.arrow", {**rows, "row": rows["row"][:3]}, COLUMNS)
    assert list(tmp_path.iterdir()) == []
