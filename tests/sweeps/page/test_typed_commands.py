"""Commands that the page types: each runs by itself, and a page that is started again finds it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.common import local_dirs
from sweeps.page import typed_commands
from sweeps.page.typed_commands import FOLDER, TypedCommands, dry_run
from sweeps.ray_start.ray_folder import start_of
from tests import ROOT

MOST_S = 60.0


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + MOST_S
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_a_command_runs_in_a_session_of_its_own() -> None:
    started = TypedCommands().start(["queue", "--help"], "first", ROOT)
    if started.is_running:
        assert os.getsid(started.pid) == started.pid != os.getsid(0)
    known = TypedCommands()  # as of another page
    until(lambda: "usage: " in started.log.read_text())
    found = known.get(started.key)
    assert found == started
    assert [each.key for each in known.every()] == [started.key]
    assert started.log.stat().st_mode & 0o077 == 0


def test_a_file_of_the_name_of_this_program_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "sweeps.py").write_text("print('mine')")
    started = TypedCommands().start(["queue", "--help"], "first", tmp_path)
    _, said = asyncio.run(dry_run(["run", "--num-trials", "0"], tmp_path))
    assert "must be at least 1" in said
    until(lambda: not started.is_running)
    assert "usage: " in started.log.read_text()


def test_what_can_not_start_leaves_nothing() -> None:
    with pytest.raises(OSError, match="too long"):
        TypedCommands().start(["run", "x" * 2**18], "first", ROOT)
    assert [*(local_dirs.state_dir() / FOLDER).iterdir()] == []


def test_its_end_is_seen() -> None:
    sweeps = TypedCommands()
    started = sweeps.start(["nothing"], "first", ROOT)
    until(lambda: not started.is_running)
    assert "nothing: no such command" in started.log.read_text()
    ended = sweeps.get(started.key)
    assert ended is not None
    assert ended.status == 2
    assert started.status is None, "it is as it was then"


def test_the_oldest_that_have_ended_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_commands, "MOST_KEPT", 2)
    folder = local_dirs.state_dir() / FOLDER
    folder.mkdir(parents=True)
    own = {"pid": os.getpid(), "began": start_of(os.getpid())}
    for day, of in enumerate((own, {"pid": 0, "began": 0}, {"pid": 0, "began": 0}), start=11):
        key = f"200101{day}-000000-abcdef"
        (folder / f"{key}.json").write_text(json.dumps({"words": ["run"], "name": "s", "folder": "/", **of}))
        (folder / f"{key}.log").touch()
    started = TypedCommands().start(["queue", "--help"], "first", ROOT)
    kept = ["20010111-000000-abcdef", "20010113-000000-abcdef", started.key]
    assert sorted(path.stem for path in folder.glob("*.log")) == kept
    assert [each.key for each in TypedCommands().every()] == kept[::-1]


@pytest.mark.parametrize("key", ["", "..", "../../etc/passwd", "20260131-101112-abcdef", "x" * 5000])
def test_no_other_file_is_read(key: str) -> None:
    assert TypedCommands().get(key) is None


def test_a_damaged_note_counts_as_none() -> None:
    folder = local_dirs.state_dir() / FOLDER
    folder.mkdir(parents=True)
    (folder / "20260131-101112-abcdef.json").write_text('{"words": 3}')
    assert TypedCommands().every() == []


def test_a_check_says_what_the_program_says() -> None:
    status, said = asyncio.run(dry_run(["run", "--num-trials", "0"], ROOT))
    assert status == 2
    assert "--num-trials 0: must be at least 1" in said
