"""Folders of a machine: named by flags, kept in the environment."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from sweeps.common import local_dirs
from sweeps.common.errors import UserError
from sweeps.common.local_dirs import DATA_DIR_VARIABLE, cache_dir, data_dir, use_typed


def test_a_folder_that_was_given_is_kept_whole_for_the_processes_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(DATA_DIR_VARIABLE, "")  # put back afterwards
    use_typed("raw", None)
    assert data_dir() == tmp_path / "raw"
    assert local_dirs.typed_again() == ["--data-dir", str(tmp_path / "raw")]
    use_typed(None, None)
    assert data_dir() == tmp_path / "raw", "one that was not given takes none back"


def test_without_one_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_DIR_VARIABLE, raising=False)
    assert data_dir() is None


def test_caches_are_where_the_user_has_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "sweeps"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert cache_dir() == tmp_path / "me" / ".cache" / "sweeps"


@pytest.mark.parametrize("temporary", ["a_scratch_folder_of_a_batch_system", "missing", "", "/proc"])
def test_sockets_have_a_short_folder_that_can_be_written(
    temporary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_scratch_folder_of_a_batch_system").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path / temporary) if temporary else "")
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    found = local_dirs.for_sockets()
    assert found in (Path("/tmp"), Path(f"/tmp/sweeps-{os.getuid()}"))
    if found != Path("/tmp"):
        assert (found.stat().st_uid, found.stat().st_mode & 0o777) == (os.getuid(), 0o700)


def test_a_folder_that_the_user_has_named_for_ray_is_used_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        assert local_dirs.for_sockets() == Path(folder)
    monkeypatch.setenv("RAY_TMPDIR", "/proc")
    with pytest.raises(UserError, match=r"RAY_TMPDIR=/proc: no file can be written .* Set RAY_TMPDIR to"):
        local_dirs.for_sockets()
    monkeypatch.setenv("RAY_TMPDIR", f"/tmp/{'x' * 40}")
    with pytest.raises(UserError, match=r"the path has 45 bytes, .* at most 32 bytes"):
        local_dirs.for_sockets()
