"""Raw files: found, refused with their names, and read again only when they changed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweeps.common.errors import UserError
from sweeps.kinds.trainable import Description
from sweeps.training.data import raw_files, ray_pipeline
from sweeps.training.data.raw_files import Facts, Item
from sweeps.training.data.ray_pipeline import Fault


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """real/a, real/b, fake/a; all old enough to be remembered. No --data-dir names it."""
    monkeypatch.delenv("SWEEPS_DATA_DIR", raising=False)
    for name in ("real/a", "real/b", "fake/a"):
        path = tmp_path / "clips" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, (1, 1))
    return tmp_path / "clips"


def found(folder: Path, **splits: list[str]) -> list[Item]:
    listed = {split: [folder / name for name in names] for split, names in splits.items()}
    return raw_files.find("mine", lambda _: listed, None, folder.with_name("checksums.json"))


def test_files_are_named_from_above_the_folder_of_their_split(folder: Path) -> None:
    items = found(folder, train=["real/b", "fake/a"], val=["real/a"])
    assert [(item.split, item.name) for item in items] == [
        ("train", "clips/fake/a"),
        ("train", "clips/real/b"),
        ("val", "real/a"),
    ]
    assert [item.name for item in found(folder, train=["real/b"])] == ["real/b"]


def test_a_file_elsewhere_changes_no_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def names(**splits: list[str]) -> dict[str, str]:
        return {item.path.relative_to(folder).as_posix(): item.name for item in found(folder, **splits)}

    alone = names(train=["real/a"])
    assert names(train=["real/a"], val=["fake/a"])["real/a"] == alone["real/a"]
    monkeypatch.setenv("SWEEPS_DATA_DIR", str(folder))
    alone = names(train=["real/a"])
    assert alone == {"real/a": "clips/real/a"}
    assert names(train=["real/a", "fake/a"])["real/a"] == alone["real/a"], "in a folder beside it"
    monkeypatch.setenv("SWEEPS_DATA_DIR", str(folder / "fake"))
    assert names(train=["real/a"]) == {"real/a": "real/a"}, "they do not lie there"


def test_a_folder_that_moves_with_its_name_changes_no_name(folder: Path) -> None:
    (folder.parent / "disk").mkdir()
    before = [item.name for item in found(folder, train=["real/b", "fake/a"])]
    moved = folder.rename(folder.parent / "disk" / folder.name)
    assert [item.name for item in found(moved, train=["real/b", "fake/a"])] == before


def test_a_checksum_is_that_of_the_content_and_is_remembered(folder: Path) -> None:
    items = found(folder, train=["real/a", "real/b"])
    assert [item.sha256 for item in items] == [
        hashlib.sha256(t.encode()).hexdigest() for t in ("real/a", "real/b")
    ]
    # The same size and time of change: it is not read again. (Whoever changes a file changes its time.)
    (folder / "real" / "a").write_text("REAL/A")
    os.utime(folder / "real" / "a", (1, 1))
    assert found(folder, train=["real/a", "real/b"]) == items
    os.utime(folder / "real" / "a", (2, 2))
    again = found(folder, train=["real/a", "real/b"])
    assert again[0].sha256 == hashlib.sha256(b"REAL/A").hexdigest()
    assert again[1] == items[1]


def test_a_file_that_was_written_just_now_is_read_again(folder: Path, tmp_path: Path) -> None:
    """It may change once more without another time of change."""
    (folder / "real" / "a").write_text("1st")
    found(folder, train=["real/a"])
    assert not (tmp_path / "checksums.json").exists()


def test_what_was_read_before_ctrl_c_is_remembered(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def hashed(path: Path, of_file: Callable[[Path], Facts] = raw_files._facts_of) -> Facts:
        if len(read) == 2:
            raise KeyboardInterrupt
        read.append(path)
        return of_file(path)

    with monkeypatch.context() as patched:
        patched.setattr(raw_files, "HASH_THREADS", 1)
        patched.setattr(raw_files, "_facts_of", hashed)
        with pytest.raises(KeyboardInterrupt):
            found(folder, train=["real/a", "real/b", "fake/a"])
    assert set(json.loads((tmp_path / "checksums.json").read_text())) == {str(path) for path in read}


@pytest.mark.parametrize("is_known", [False, True])
def test_a_file_that_vanishes_is_named(is_known: bool, folder: Path, tmp_path: Path) -> None:
    paths, memory = [folder / "real" / name for name in ("a", "b")], tmp_path / "cache" / "checksums.json"
    if is_known:
        raw_files.facts_of(paths, memory)
    (folder / "real" / "b").unlink()
    with pytest.raises(UserError, match=r"real/b can't be read: No such file or directory"):
        raw_files.facts_of(paths, memory)


@pytest.mark.parametrize("content", ["", "[]", "{]"])
def test_a_memory_that_is_broken_is_forgotten(content: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "checksums.json").write_text(content)
    items = found(folder, train=["real/a"])
    assert items[0].sha256 == hashlib.sha256(b"real/a").hexdigest()


def test_a_file_is_as_listed_by_its_time_or_by_its_content(folder: Path) -> None:
    """As on another PC, where a copy may have another time, or be of another day."""
    (item,), path = found(folder, train=["real/a"]), folder / "real" / "a"
    assert item.is_as_listed()
    os.utime(path, (2, 2))
    assert item.is_as_listed()
    path.write_text("REAL/A")
    assert not item.is_as_listed()
    path.write_text("real")
    os.utime(path, (1, 1))
    assert not item.is_as_listed()


def test_what_was_changed_since_it_was_listed_is_not_prepared(folder: Path) -> None:
    (item,) = found(folder, train=["real/a"])
    item.path.write_text("REAL/A")
    (fault,) = ray_pipeline.prepare_file(item, Description("lightning", "mine", "no.such.module"), {})
    assert fault == Fault("it has changed since the raw files were listed")


def test_a_part_is_of_split_name_and_content(folder: Path) -> None:
    """The folder of a file may say what its rows are."""
    (folder / "fake" / "a").write_text("real/a")
    items = found(folder, train=["real/a", "fake/a"])
    assert items[0].sha256 == items[1].sha256
    assert items[0].part != items[1].part
    assert items[0].part != dataclasses.replace(items[0], split="val").part


def test_a_name_may_be_no_utf_8(folder: Path) -> None:
    name = os.fsdecode(b"real/caf\xe9")
    (folder / name).write_text("latin 1")
    item = found(folder, train=[name])[0]
    assert item.part != dataclasses.replace(item, name="real/caf").part


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ({"train": ["real/a", "real/c"]}, r"mine: raw_items lists .*/real/c, which is not a file"),
        ({"train": ["real"]}, r"mine: raw_items lists .*/real, which is not a file"),
        ({"val": ["real/a"]}, r'mine: raw_items lists no file to train on \(its split "train"\)'),
        ({"train": []}, r"mine: raw_items lists no file to train on"),
        (
            {"train": ["real/a"], "val": ["real/a"]},
            r"mine: raw_items lists .*/real/a twice: its rows would be in",
        ),
        ({"train": [f"gone{n}" for n in range(9)]}, r"(?s)gone4, which is not a file\nand 4 more faults"),
        (None, "mine: raw_items must return split -> paths of files"),
        ({"train": None}, "mine: raw_items must return split -> paths of files"),
        ({"train": [3]}, "mine: raw_items must return split -> paths of files"),
    ],
)
def test_a_list_that_is_none_is_refused(listed: Any, expected: str, folder: Path) -> None:
    def raw_items(_: object) -> Any:
        if listed is None or [3] in listed.values() or None in listed.values():
            return listed
        return {split: [folder / name for name in names] for split, names in listed.items()}

    with pytest.raises(UserError, match=expected):
        raw_files.find("mine", raw_items, None, folder / "checksums.json")


def test_the_ways_to_get_the_files_are_said(folder: Path) -> None:
    def raw_items(_: object) -> Any:
        raise FileNotFoundError("no clips here; ask your librarian")

    with pytest.raises(UserError, match=r"^no clips here; ask your librarian$"):
        raw_files.find("mine", raw_items, None, folder / "checksums.json")
