"""Folders of checkpoints on their way: who may remove them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from sweeps.storage import scratch


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files of this process alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_of_a_process_that_has_died_is_removed(temporary: Path) -> None:
    (left := temporary / f"{scratch.PREFIX}left").mkdir()
    new = scratch.new_folder()
    assert list(temporary.iterdir()) == [new]
    assert not left.exists()


def test_a_folder_in_use_stays(temporary: Path) -> None:
    (used := temporary / f"{scratch.PREFIX}used").mkdir()
    descriptor = scratch.claim(used)
    scratch.new_folder()
    assert used.is_dir()
    os.close(descriptor)


def test_what_can_not_be_removed_is_not_kept_locked(temporary: Path) -> None:
    (file := temporary / f"{scratch.PREFIX}0a1b.lock").touch()
    scratch.new_folder()
    os.close(scratch.claim(file))
