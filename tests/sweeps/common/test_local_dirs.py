"""Folders of a machine: named by flags, kept in the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.common import local_dirs
from sweeps.common.local_dirs import DATA_DIR_VARIABLE, cache_dir, data_dir, use_typed
from sweeps.kinds import registry


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


def test_a_folder_of_the_environment_may_be_in_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the shell leaves its `~` as it is."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(DATA_DIR_VARIABLE, "~/raw")
    assert data_dir() == tmp_path / "raw"


def test_caches_are_where_the_user_has_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "sweeps"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert cache_dir() == tmp_path / "me" / ".cache" / "sweeps"


def test_commands_that_start_in_one_second_take_different_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert [local_dirs.unused_name(name) for name in ("net", "net", "cnn", "net")] == [
        *("net", "net-2", "cnn", "net-3")
    ]
    assert len({registry.new_name(["net"]) for _ in range(9)}) == 9
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    assert local_dirs.unused_name("net") == "net", "the name needs no home"
