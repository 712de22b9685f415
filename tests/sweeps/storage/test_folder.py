"""A folder that all PCs see, or should."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sweeps.common import atomic_io
from sweeps.storage.open import Folder
from sweeps.storage.protocol import StorageError

NOT_THERE = "share/mine is missing: all PCs must see that folder"


def test_a_folder_that_a_pc_does_not_see_is_the_storages_fault_and_not_the_trials(tmp_path: Path) -> None:
    """Else a trial would begin anew there, and fail at its first checkpoint."""
    lost = Folder(tmp_path / "share" / "mine")
    with pytest.raises(StorageError, match=NOT_THERE):
        lost.newest(3)
    with pytest.raises(StorageError, match=NOT_THERE):
        lost.write(3, 1, lambda folder: None, {})
    with pytest.raises(StorageError, match=NOT_THERE):
        lost.epochs(3)
    with pytest.raises(StorageError, match=NOT_THERE):
        lost.numbers()
    with pytest.raises(StorageError, match=NOT_THERE):
        lost.remove(3)
    assert not (tmp_path / "share").exists(), "it is not made there, beside the real one"


def test_a_folder_that_is_lost_while_a_checkpoint_is_written_is_at_fault_and_else_who_writes(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path / "share" / "mine")
    folder.make()

    def fill(part: Path) -> None:
        raise RuntimeError("unexpected pos 64 vs 0")  # as PyTorch says it

    def lose(part: Path) -> None:
        (tmp_path / "share").rename(tmp_path / "unmounted")
        fill(part)

    with pytest.raises(RuntimeError, match="unexpected pos"):
        folder.write(3, 1, fill, {})
    with pytest.raises(StorageError, match=NOT_THERE):
        folder.write(3, 1, lose, {})


def test_a_folder_that_is_lost_while_a_checkpoint_is_read_has_no_damaged_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a trial would begin anew, and remove those that are whole with its first one."""

    def lose(file: Path) -> str:
        (tmp_path / "share").rename(tmp_path / "unmounted")
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    folder = Folder(tmp_path / "share" / "mine")
    folder.make()
    folder.write(3, 1, lambda part: (part / "weights.pt").touch(), {})
    with monkeypatch.context() as lost:
        lost.setattr(atomic_io, "sha256_of", lose)
        with pytest.raises(StorageError, match=NOT_THERE):
            folder.newest(3)
    (tmp_path / "unmounted").rename(tmp_path / "share")
    newest, faults = folder.newest(3)
    assert newest is not None
    assert not faults


def test_a_share_that_does_not_answer_is_at_fault_where_an_old_checkpoint_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep goes on then, and a resume removes it."""

    def no_answer(path: Path, target: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    folder = Folder(tmp_path)
    folder.write(3, 1, lambda part: None, {})
    monkeypatch.setattr(Path, "rename", no_answer)
    for epoch in (None, 1):
        with pytest.raises(StorageError, match=f"{tmp_path.name}: Input/output error"):
            folder.remove(3, epoch)
    assert folder.epochs(3) == [1]
