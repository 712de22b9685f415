"""Sweeps of the queue are noted, and started again after a reboot: a note of another boot stands for one."""

from __future__ import annotations

import errno
import json
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps import down, up
from sweeps.common import local_dirs
from sweeps.ray_start import queued_sweeps

JOINS = """
import sys, time
from pathlib import Path
from sweeps.ray_start import queued_sweeps
folder = Path(sys.argv[1])
with queued_sweeps.noted(folder, ["-c", "never started"], lambda: False):
    print("joined", flush=True)
    for _ in range(600):
        if (folder / "may_end").exists():
            break
        time.sleep(0.1)
"""
"""It is in the queue until there is a file in its folder."""

SECRETS = ("SOME_API_KEY", "DATABASE_URL", "MYSQL_PWD", "GITHUB_PAT", "RAY_AUTH_TOKEN", "MY_SETTING")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in SECRETS:
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("RAY_REDIS_ADDRESS", "redis://me:secret@db")
    monkeypatch.setenv("SWEEPS_DATA_DIR", "/data")
    folder = tmp_path / "sweep"
    folder.mkdir()
    return folder


def notes() -> list[Path]:
    return sorted((local_dirs.state_dir() / "queue").rglob("*.json"))


def boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def reboot() -> None:
    for path in notes():
        path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "the one before"}))


def killed_in_the_queue(folder: Path) -> None:
    """A process that joins the queue, and is killed there."""
    words = [sys.executable, "-c", JOINS, str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("joined")
        process.kill()


def test_a_sweep_that_was_killed_has_left_the_queue(folder: Path) -> None:
    killed_in_the_queue(folder)
    assert len(notes()) == 1
    assert queued_sweeps.interrupted() == []
    assert notes() == []


def test_one_that_was_killed_does_not_come_back_after_sweeps_down(folder: Path) -> None:
    killed_in_the_queue(folder)
    assert down.main([]) == 0
    reboot()
    assert queued_sweeps.interrupted() == []


def test_one_that_is_there_stays_and_its_end_takes_the_note_away(folder: Path) -> None:
    with queued_sweeps.noted(folder, ["run"], lambda: False):
        (note,) = notes()
        assert queued_sweeps.interrupted() == []
        assert notes() == [note]
        assert note.parent.stat().st_mode & 0o777 == 0o700
        assert note.stat().st_mode & 0o777 == 0o600
        assert "secret" not in note.read_text(), "no file has the values of such variables"
        assert json.loads(note.read_text())["variables"]["SWEEPS_DATA_DIR"] == "/data"
    assert notes() == []


def test_a_reboot_starts_them_again_in_their_order(folder: Path, tmp_path: Path) -> None:
    other, gone = tmp_path / "other", tmp_path / "gone"
    other.mkdir()
    gone.mkdir()
    for each in (other, folder, gone):
        killed_in_the_queue(each)
        reboot()
    gone.rmdir()
    first, second = queued_sweeps.interrupted()
    assert (first.folder, second.folder) == (str(other), str(folder))
    assert first.since < second.since
    again = queued_sweeps.QueuedSweep(**{**vars(first), "words": ["-c", JOINS, str(other)]})
    assert (started := queued_sweeps.start_again(again)) is not None
    joined = [json.loads(path.read_text()) for path in notes()]
    assert first.since in [each["since"] for each in joined if each["boot"] == boot()], "it keeps its place"
    (other / "may_end").touch()
    assert started.wait(60) == 0
    assert (other / "queue.log").read_text() == "joined\n"
    assert [each.folder for each in queued_sweeps.interrupted()] == [str(folder)]


def test_one_is_started_again_by_the_python_of_its_own_environment(folder: Path, tmp_path: Path) -> None:
    killed_in_the_queue(folder)
    reboot()
    (note,) = queued_sweeps.interrupted()
    assert note.python == sys.executable
    mine = tmp_path / "other env" / "python"
    mine.parent.mkdir()
    mine.write_text("#!/bin/sh\necho by its own; exit 1\n")
    mine.chmod(0o755)
    for python, said in ((str(mine), "by its own\n"), (str(tmp_path / "gone"), "by another\n")):
        words = ["-c", "raise SystemExit('by another')"]
        assert queued_sweeps.start_again(replace(note, python=python, words=words)) is None
        assert (folder / "queue.log").read_text().endswith(said)


def test_one_from_before_sweeps_up_counts_as_soon_as_its_ray_stays(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with (
        queued_sweeps.noted(folder, ["run"], lambda: True, is_kept=False),
        queued_sweeps.noted(other, ["run"], lambda: True, is_kept=False),
    ):
        queued_sweeps.keep([str(folder), "", str(tmp_path / "no sweep of the queue")])
    reboot()
    assert [each.folder for each in queued_sweeps.interrupted()] == [str(folder)]
    assert len(notes()) == 1, "the other one is forgotten"


def test_a_pc_with_the_same_home_folder_leaves_the_sweeps_of_another_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_in_the_queue(folder)
    reboot()
    with monkeypatch.context() as there:
        there.setattr(platform, "node", lambda: "another")
        assert queued_sweeps.interrupted() == []
    assert [each.folder for each in queued_sweeps.interrupted()] == [str(folder)]


def test_one_that_does_not_start_is_not_tried_for_ever(folder: Path) -> None:
    killed_in_the_queue(folder)
    reboot()
    (note,) = queued_sweeps.interrupted()
    fails = queued_sweeps.QueuedSweep(**{**vars(note), "words": ["-c", "raise SystemExit('no such model')"]})
    assert queued_sweeps.start_again(fails) is None
    assert (folder / "queue.log").read_text() == "no such model\n"
    assert notes() == []


@pytest.mark.parametrize("content", [b'{"folder": "/', b"\xff\x80", b"[]"])
def test_a_note_that_is_cut_short_is_none(content: bytes, folder: Path) -> None:
    with queued_sweeps.noted(folder, ["run"], lambda: False):
        (note,) = notes()
        note.write_bytes(content)
        assert queued_sweeps.interrupted() == []
    assert note.parent.is_dir()


def test_a_home_folder_that_does_not_answer_ends_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder of Ray looks there again and again: Ray would end with it, and all sweeps."""
    monkeypatch.setenv("XDG_STATE_HOME", f"/{'away' * 100}")  # too long a name
    queued_sweeps.forget_killed()
    assert queued_sweeps.interrupted() == []
    with queued_sweeps.noted(folder, ["run"], lambda: False):
        queued_sweeps.forget_killed()


def test_one_whose_share_does_not_answer_waits_for_the_next_time(folder: Path) -> None:
    with queued_sweeps.noted(folder, ["run"], lambda: True):
        (note,) = notes()
    away = {"boot": "the one before", "folder": f"/{'away' * 100}"}  # too long a name
    note.write_text(json.dumps({**json.loads(note.read_text()), **away}))
    assert queued_sweeps.interrupted() == []
    assert notes() == [note]


def test_one_that_can_not_be_started_now_holds_no_other_one(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for each in (folder, other):
        killed_in_the_queue(each)
        reboot()
    (folder / "queue.log").mkdir()  # as where its share does not answer
    assert up._start_interrupted() == []
    said = capsys.readouterr().out
    assert "sweep can't be resumed now: [Errno 21] Is a directory: " in said
    assert "other could not be resumed; what it prints is in " in said
    assert [json.loads(path.read_text())["folder"] for path in notes()] == [str(folder)]


def test_a_note_that_can_not_be_read_now_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with queued_sweeps.noted(folder, ["run"], lambda: False):
        there = notes()
        with monkeypatch.context() as away:
            away.setattr(Path, "read_bytes", fails)
            queued_sweeps.forget_killed()
        assert notes() == there != []


def test_a_note_stays_where_the_pc_may_be_shutting_down(folder: Path) -> None:
    with queued_sweeps.noted(folder, ["run"], lambda: True):
        pass
    assert len(notes()) == 1
