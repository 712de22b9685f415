"""A folder of prepared data on another PC, as two folders: copied, completed, mended, and refused."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sweeps.common.errors import PCUnfit
from sweeps.storage import data_source, folder_copy
from sweeps.storage.data_source import CopiedData, SharedData
from sweeps.storage.folder_copy import CannotCopy, File, Original, Place
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

    def __init__(self, original: Original, folder: Path) -> None:
        self.folder = folder
        self.given: dict[str, int] = {}
        self.cut_after = 10**9
        self.flips: list[str] = []
        """Files of which a byte arrives as another, each time that it stands here once."""

    def __call__(self, file: File, offset: int) -> Iterator[memoryview]:
        content = bytearray((self.folder / file.name).read_bytes())
        if file.name in self.flips:
            self.flips.remove(file.name)
            content[-100] ^= 1
        for begin in range(offset, len(content), PIECE):
            piece = memoryview(content)[begin : begin + PIECE]
            if sum(self.given.values()) + len(piece) > self.cut_after:
                raise Cut
            self.given[file.name] = self.given.get(file.name, 0) + len(piece)
            yield piece


@pytest.fixture
def original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Original:
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
            write_shard(data_set.folder, f"{split}-{n}.arrow", rows, columns) for n in range(count)
        ]
    Manifest(columns=columns, splits=splits, fingerprint=data_set.key).write(data_set.folder)
    for path in data_set.folder.iterdir():
        os.utime(path, OLD)
    described = data_source.original_of(data_set)
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(tmp_path / "ours"))
    return described


@pytest.fixture
def source(original: Original) -> Source:
    """Of the original, whose folder this PC does not see from now on."""
    hidden = Path(original.folder).with_name("hidden")
    Path(original.folder).rename(hidden)
    return Source(original, hidden)


def place_of(original: Original) -> Place:
    """Where a copy goes on this PC, with the settings of this moment."""
    return CopiedData(original, "lock", "pc1").place


def is_shared(original: Original) -> bool:
    try:
        return SharedData(original, "pc1").here(print) == Path(original.folder)
    except PCUnfit:
        return False


def is_whole(original: Original, source: Source) -> bool:
    here, there = place_of(original).folder, source.folder
    assert sorted(path.name for path in here.iterdir()) == sorted(path.name for path in there.iterdir())
    return all((here / path.name).read_bytes() == path.read_bytes() for path in there.iterdir())


def shards_of(original: Original) -> dict[str, int]:
    return {file.name: file.size_bytes for file in original.files if file.name != MANIFEST}


def test_it_is_copied_once_and_then_known(original: Original, source: Source) -> None:
    assert folder_copy.find(original, place_of(original)) is None
    assert folder_copy.missing_bytes(original, place_of(original)) == original.size_bytes
    told: list[int] = []
    assert folder_copy.bring(original, place_of(original), source, told.append) == place_of(original).folder
    assert is_whole(original, source)
    assert source.given == shards_of(original)
    assert sum(told) == sum(source.given.values())
    assert folder_copy.find(original, place_of(original)) == place_of(original).folder
    assert folder_copy.missing_bytes(original, place_of(original)) == 0
    folder_copy.bring(original, place_of(original), source)
    assert source.given == shards_of(original), "nothing is fetched again"


def test_what_was_copied_is_not_even_read_again(original: Original, source: Source) -> None:
    folder_copy.bring(original, place_of(original), source)
    shard = place_of(original).folder / "train-0.arrow"
    content = bytearray(shard.read_bytes())
    content[-100] ^= 1
    shard.write_bytes(content)
    os.utime(shard, ns=(OLD[1] * 10**9, OLD[1] * 10**9))  # as it is known by
    assert folder_copy.find(original, place_of(original)) == place_of(original).folder


def test_one_that_this_pc_sees_in_its_folder_is_used_where_it_lies(original: Original) -> None:
    assert folder_copy.find(original, place_of(original)) == Path(original.folder)
    assert is_shared(original)
    assert folder_copy.missing_bytes(original, place_of(original)) == 0
    assert not place_of(original).folder.exists()


def test_a_copy_made_by_hand_in_the_same_place_is_taken_for_its_checksums(
    original: Original, source: Source
) -> None:
    shutil.copytree(source.folder, original.folder)
    assert folder_copy.find(original, place_of(original)) == Path(original.folder)
    (Path(original.folder) / "val-0.arrow").write_bytes((source.folder / "train-0.arrow").read_bytes())
    assert folder_copy.find(original, place_of(original)) is None
    assert is_shared(original), "of its size"
    shutil.rmtree(original.folder)
    assert not is_shared(original)


@pytest.mark.parametrize("cut_after", [1, 2 * PIECE, 40_000, 80_000])
def test_a_copy_that_is_cut_goes_on_where_it_was(cut_after: int, original: Original, source: Source) -> None:
    source.cut_after = cut_after
    with pytest.raises(Cut):
        folder_copy.bring(original, place_of(original), source)
    assert folder_copy.find(original, place_of(original)) is None
    assert not (place_of(original).folder / MANIFEST).exists()
    there = sum(source.given.values())
    assert folder_copy.missing_bytes(original, place_of(original)) == original.size_bytes - there
    source.cut_after = 10**9
    folder_copy.bring(original, place_of(original), source)
    assert source.given == shards_of(original), "no byte twice"
    assert is_whole(original, source)


@pytest.mark.parametrize("damage", ["flipped", "cut off", "removed", "manifest"])
def test_a_copy_that_is_broken_is_mended_file_by_file(
    damage: str, original: Original, source: Source
) -> None:
    folder_copy.bring(original, place_of(original), source)
    source.given.clear()
    broken = place_of(original).folder / (MANIFEST if damage == "manifest" else "train-1.arrow")
    content = bytearray(broken.read_bytes())
    content[-100] ^= 1
    broken.unlink() if damage == "removed" else broken.write_bytes(
        content if damage in ("flipped", "manifest") else content[:-1]
    )
    assert folder_copy.find(original, place_of(original)) is None
    folder_copy.bring(original, place_of(original), source)
    assert source.given == ({} if damage == "manifest" else {broken.name: broken.stat().st_size})
    assert is_whole(original, source)


def test_a_byte_that_is_flipped_on_the_way_is_fetched_again(original: Original, source: Source) -> None:
    source.flips = ["val-0.arrow"]
    folder_copy.bring(original, place_of(original), source)
    assert source.given["val-0.arrow"] == 2 * shards_of(original)["val-0.arrow"]
    assert is_whole(original, source)


def test_an_original_that_is_damaged_is_named(original: Original, source: Source) -> None:
    source.flips = ["val-0.arrow"] * 2
    with pytest.raises(CannotCopy, match=r"val-0.arrow arrived 2 times .*/theirs/mine-\w+, is damaged"):
        folder_copy.bring(original, place_of(original), source)
    assert not (place_of(original).folder / MANIFEST).exists()
    folder_copy.bring(original, place_of(original), source)
    assert is_whole(original, source)


def test_the_original_itself_is_never_written(original: Original, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that all PCs share, in which a file was damaged since."""
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(Path(original.folder).parent))
    damaged = Path(original.folder) / "val-0.arrow"
    damaged.write_bytes(content := bytes(damaged.stat().st_size))
    with pytest.raises(CannotCopy, match=r"/theirs/mine-\w+ is the original, and it has changed"):
        folder_copy.bring(original, place_of(original), Source(original, Path(original.folder)))
    assert damaged.read_bytes() == content
    assert (Path(original.folder) / MANIFEST).exists()


def test_part_of_another_file_is_no_beginning(original: Original, source: Source) -> None:
    place_of(original).folder.mkdir(parents=True)
    for name, length in (("train-0", PIECE), ("train-1", 10**6)):
        (place_of(original).folder / f".{name}.arrow.part").write_bytes(bytes(length))
    folder_copy.bring(original, place_of(original), source)
    assert is_whole(original, source)


def test_a_disk_without_room_is_told_before_anything_is_copied(
    original: Original, source: Source, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(small_disk / "ours"))
    others = fill_up(small_disk, leave=50_000)
    needed = rf"the disk of {small_disk}/ours has no room: \d+ kB needed, 4\d.* kB free"
    with pytest.raises(CannotCopy, match=needed):
        folder_copy.missing_bytes(original, place_of(original))
    with pytest.raises(CannotCopy, match=needed):
        folder_copy.bring(original, place_of(original), source)
    assert source.given == {}
    others.unlink()
    folder_copy.bring(original, place_of(original), source)
    assert is_whole(original, source)


def test_a_disk_that_others_fill_meanwhile_is_named(
    original: Original, source: Source, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(small_disk / "ours"))
    filled: list[Path] = []

    def told(_: int) -> None:
        if not filled:
            filled.append(fill_up(small_disk))

    with pytest.raises(CannotCopy, match=rf"the disk of {small_disk}/ours is full"):
        folder_copy.bring(original, place_of(original), source, told)
    assert folder_copy.find(original, place_of(original)) is None
    filled[0].unlink()
    folder_copy.bring(original, place_of(original), source)
    assert is_whole(original, source)


def test_a_place_that_may_not_be_written_is_named(
    original: Original, source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(tmp_path / "file" / "ours"))
    with pytest.raises(CannotCopy, match=r"/file/ours: Not a directory"):
        folder_copy.bring(original, place_of(original), source)


def test_two_that_want_it_at_once_copy_it_once(original: Original, source: Source) -> None:
    threads = [
        threading.Thread(target=folder_copy.bring, args=(original, place_of(original), source))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source.given == shards_of(original)
    assert is_whole(original, source)
