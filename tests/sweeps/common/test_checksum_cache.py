"""Checksums: of the content, and remembered while a file stays as it was."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from sweeps.common import checksum_cache
from sweeps.common.errors import UserError

LONG_AGO = 1_000_000_000


def written(path: Path, content: bytes, at: int = LONG_AGO) -> Path:
    """A file that was changed last at a time in seconds since 1970."""
    path.write_bytes(content)
    os.utime(path, (at, at))
    return path


def test_size_time_and_checksum_are_those_of_the_file(tmp_path: Path) -> None:
    file = written(tmp_path / "a", b"abc")
    found = checksum_cache.of([file], tmp_path / "memory.json", "Reading")
    assert found == {file: (3, LONG_AGO * 10**9, hashlib.sha256(b"abc").hexdigest())}


def test_a_file_that_stays_as_it_was_is_not_read_again_and_another_is(tmp_path: Path) -> None:
    file, memory = written(tmp_path / "a", b"abc"), tmp_path / "memory.json"
    before = checksum_cache.of([file], memory, "Reading")
    written(file, b"xyz")  # of the same size and time: who reads it anew finds another checksum
    assert checksum_cache.of([file], memory, "Reading") == before
    written(file, b"xyz", LONG_AGO + 1)
    assert checksum_cache.of([file], memory, "Reading")[file][2] == checksum_cache.sha256_of(file)


def test_what_is_remembered_of_other_files_stays(tmp_path: Path) -> None:
    memory = tmp_path / "below" / "memory.json"
    for name in "ab":
        checksum_cache.of([written(tmp_path / name, name.encode())], memory, "Reading")
    assert sorted(json.loads(memory.read_text())) == [str(tmp_path / "a"), str(tmp_path / "b")]


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"{tmp_path}/a can't be read: No such file"):
        checksum_cache.of([tmp_path / "a"], tmp_path / "memory.json", "Reading")
