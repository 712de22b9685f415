"""Copies onto a file system of another host: whole, or a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pytest

from sweeps.storage import backend


class Short:
    """A file system that says of every file that a part of it arrived."""

    def __init__(self, fs: Any, arrived: int) -> None:
        self.open, self._arrived = fs.open, arrived

    def info(self, target: str) -> dict[str, int]:
        return {"size": self._arrived}


def test_a_copy_has_the_content_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(256)) * 20_000)
    backend.copy(fsspec.filesystem("file"), tmp_path / "a", str(tmp_path / "b"))
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()


def test_a_copy_of_which_a_part_arrived_is_named_with_how_much(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(12_345))
    with pytest.raises(OSError, match=rf"{tmp_path}/b: 9,999 of 12,345 bytes arrived"):
        backend.copy(Short(fsspec.filesystem("file"), 9999), tmp_path / "a", str(tmp_path / "b"))
