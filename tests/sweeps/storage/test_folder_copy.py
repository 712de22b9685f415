"""A folder of prepared data on another PC, as two folders: copied, completed, mended, and refused."""

from __future__ import annotations

import dataclasses
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from sweeps.common.errors import PCUnfit
from sweeps.ray_cluster import nodes
from sweeps.storage import data_source
from sweeps.storage.data_source import PreparedData
from sweeps.training.data.dataset import DataSet
from sweeps.training.data.raw_files import Item
from sweeps.training.data.shards import MANIFEST, Manifest, columns_of, write_shard
from tests.conftest import fill_up
from tests.support.trainables import described as described_as

PIECE = 5_000
ROWS = 300
OLD = (1_000_000_000, 1_000_000_000)


class Cut(Exception):
    """The cable, say."""


class Source:
    """Reads the original in pieces, and counts; in what it gives something may go wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.given: dict[str, int] = {}
        self.cut_after = 10**9
        self.flips: list[str] = []
        """Files of which a byte arrives as another, once."""
        self.begun: Callable[[], object] = lambda: None
        """Called before each piece."""

    def __call__(self, path: Path, size_bytes: int) -> Iterator[memoryview]:
        content = bytearray((self.folder / path.name).read_bytes())
        assert len(content) == size_bytes
        if path.name in self.flips:
            self.flips.remove(path.name)
            content[-100] ^= 1
        for begin in range(0, len(content), PIECE):
            piece = memoryview(content)[begin : begin + PIECE]
            if sum(self.given.values()) + len(piece) > self.cut_after:
                raise Cut
            self.given[path.name] = self.given.get(path.name, 0) + len(piece)
            self.begun()
            yield piece


@pytest.fixture
def original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PreparedData:
    """A data set of three files on another PC; this one has none."""
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(tmp_path / "theirs"))
    item = Item("train", "a", tmp_path / "raw" / "a", 1, "0")
    data_set = DataSet(described_as("my_project.mine", "mine"), {}, (item,), "code")
    splits, columns = {}, {}
    for number, split in enumerate(("train", "val")):
        values = np.random.default_rng(number).integers(0, 255, (ROWS, 100), np.uint8)
        rows = {"image": values, "label": np.arange(ROWS)}
        columns = columns_of(rows)
        count = 2 - number
        splits[split] = [
            write_shard(data_set.folder, f"{split}-{n}.parquet", rows, columns) for n in range(count)
        ]
    Manifest(columns=columns, splits=splits, fingerprint=data_set.key).write(data_set.folder)
    for path in data_set.folder.iterdir():
        os.utime(path, OLD)
    monkeypatch.setattr(nodes, "here", lambda: "")
    monkeypatch.setattr(nodes, "read_file", None)  # `bring` sets it
    described = data_source.cluster_data(data_set, is_copied=True)
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(tmp_path / "ours"))
    return described


@pytest.fixture
def source(original: PreparedData) -> Source:
    """Of the original, whose folder this PC does not see from now on."""
    hidden = Path(original.folder).with_name("hidden")
    Path(original.folder).rename(hidden)
    return Source(hidden)


def copy_of(original: PreparedData) -> Path:
    """Where a copy goes on this PC, with the settings of this moment."""
    return original._copy


def bring(original: PreparedData, source: Source) -> int:
    nodes.read_file = lambda node, holder, *each: source(*each)
    return original.bring()


def is_shared(original: PreparedData) -> bool:
    try:
        shared = dataclasses.replace(original, is_copied=False)
        return shared.here(print) == Path(original.folder)
    except PCUnfit:
        return False


def is_whole(original: PreparedData, source: Source) -> bool:
    here, there = copy_of(original), source.folder
    assert sorted(path.name for path in here.iterdir()) == sorted(path.name for path in there.iterdir())
    return all((here / path.name).read_bytes() == path.read_bytes() for path in there.iterdir())


def size_of(original: PreparedData) -> int:
    return sum(file.size_bytes for file in original.files)


def sizes_of(original: PreparedData) -> dict[str, int]:
    return {file.name: file.size_bytes for file in original.files}


def test_it_is_copied_once_and_then_known(original: PreparedData, source: Source) -> None:
    assert original._find() is None
    assert original.missing_bytes() == size_of(original)
    assert bring(original, source) == size_of(original)
    assert is_whole(original, source)
    assert source.given == sizes_of(original)
    assert original._find() == copy_of(original)
    assert original.missing_bytes() == 0
    assert bring(original, source) == 0
    assert source.given == sizes_of(original), "nothing is fetched again"


def test_what_was_copied_is_not_even_read_again(original: PreparedData, source: Source) -> None:
    bring(original, source)
    shard = copy_of(original) / "train-0.parquet"
    content = bytearray(shard.read_bytes())
    content[-100] ^= 1
    shard.write_bytes(content)
    os.utime(shard, ns=(OLD[1] * 10**9, OLD[1] * 10**9))  # as it is known by
    assert original._find() == copy_of(original)


def test_one_that_this_pc_sees_in_its_folder_is_used_where_it_lies(original: PreparedData) -> None:
    assert original._find() == Path(original.folder)
    assert is_shared(original)
    assert original.missing_bytes() == 0
    assert not copy_of(original).exists()


def test_an_exact_copy_made_by_hand_in_the_same_place_is_used(original: PreparedData, source: Source) -> None:
    shutil.copytree(source.folder, original.folder)
    assert original._find() == Path(original.folder)
    assert is_shared(original)
    (Path(original.folder) / "val-0.parquet").write_bytes((source.folder / "train-0.parquet").read_bytes())
    assert original._find() is None
    assert not is_shared(original)


def test_a_copy_that_is_cut_goes_on_with_the_file_it_was_at(original: PreparedData, source: Source) -> None:
    first, second = original.files[0], original.files[1]
    source.cut_after = first.size_bytes + PIECE
    with pytest.raises(Cut):
        bring(original, source)
    assert original._find() is None
    assert original.missing_bytes() == size_of(original) - first.size_bytes
    source.cut_after = 10**9
    bring(original, source)
    assert source.given == {**sizes_of(original), second.name: second.size_bytes + PIECE}
    assert is_whole(original, source)


@pytest.mark.parametrize("damage", ["flipped", "cut off", "removed", "manifest"])
def test_a_copy_that_is_broken_is_mended_file_by_file(
    damage: str, original: PreparedData, source: Source
) -> None:
    bring(original, source)
    source.given.clear()
    broken = copy_of(original) / (MANIFEST if damage == "manifest" else "train-1.parquet")
    content = bytearray(broken.read_bytes())
    content[-100] ^= 1
    broken.unlink() if damage == "removed" else broken.write_bytes(
        content if damage in ("flipped", "manifest") else content[:-1]
    )
    assert original._find() is None
    bring(original, source)
    assert source.given == {broken.name: broken.stat().st_size}
    assert is_whole(original, source)


def test_an_original_that_is_damaged_is_named(original: PreparedData, source: Source) -> None:
    source.flips = ["val-0.parquet"] * 2
    with pytest.raises(PCUnfit, match=r"val-0.parquet arrived 2 times .*/theirs/mine-\w+, is damaged"):
        bring(original, source)
    assert not (copy_of(original) / MANIFEST).exists()
    bring(original, source)
    assert is_whole(original, source)


def test_the_original_itself_is_never_written(
    original: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home that all PCs share, in which a file was damaged since."""
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(Path(original.folder).parent))
    damaged = Path(original.folder) / "val-0.parquet"
    damaged.write_bytes(content := bytes(damaged.stat().st_size))
    with pytest.raises(PCUnfit, match=r"the original, /\S*/theirs/mine-\w+, is damaged"):
        bring(original, Source(Path(original.folder)))
    assert damaged.read_bytes() == content
    assert (Path(original.folder) / MANIFEST).exists()


def test_a_disk_without_room_is_told_before_anything_is_copied(
    original: PreparedData, source: Source, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(small_disk / "ours"))
    others = fill_up(small_disk, leave=50_000)
    needed = rf"the disk of {small_disk}/ours has no room: \d+ kB needed, 4\d.* kB free"
    with pytest.raises(PCUnfit, match=needed):
        original.missing_bytes()
    with pytest.raises(PCUnfit, match=needed):
        bring(original, source)
    assert source.given == {}
    others.unlink()
    bring(original, source)
    assert is_whole(original, source)


def test_a_disk_that_others_fill_meanwhile_is_named(
    original: PreparedData, source: Source, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(small_disk / "ours"))
    filled: list[Path] = []

    def fill() -> None:
        if not filled:
            filled.append(fill_up(small_disk))

    source.begun = fill
    with pytest.raises(PCUnfit, match=rf"the disk of {small_disk}/ours is full"):
        bring(original, source)
    assert original._find() is None
    filled[0].unlink()
    bring(original, source)
    assert is_whole(original, source)


def test_a_place_that_may_not_be_written_is_named(
    original: PreparedData, source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(tmp_path / "file" / "ours"))
    with pytest.raises(PCUnfit, match=r"/file/ours: Not a directory"):
        bring(original, source)


def test_two_that_want_it_at_once_copy_it_once(original: PreparedData, source: Source) -> None:
    threads = [threading.Thread(target=bring, args=(original, source)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source.given == sizes_of(original)
    assert is_whole(original, source)
