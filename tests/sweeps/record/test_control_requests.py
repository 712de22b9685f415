"""Requests to the process that runs a sweep, and who may make them."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sweeps.common.errors import UserError
from sweeps.record import control_requests, lock
from sweeps.record.control_requests import Answer, Inbox, ask


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[Inbox]:
    """Of a sweep that runs in this process."""
    with lock.held(tmp_path):
        inbox = Inbox(tmp_path)
        inbox.open()
        yield inbox


def taken(inbox: Inbox) -> list[tuple[str, ...]]:
    return [request.words for request in inbox.take()[0]]


def waiting(folder: Path) -> list[Path]:
    return sorted((folder / "control" / "requests").glob("*.json"))


def test_a_request_is_taken_once_and_answered(inbox: Inbox, tmp_path: Path) -> None:
    answers: list[Answer | None] = []
    asking = threading.Thread(target=lambda: answers.append(ask(tmp_path, ["stop", "3"])))
    asking.start()
    while not (found := inbox.take()[0]):
        continue
    assert [request.words for request in found] == [("stop", "3")]
    inbox.answer(found[0], Answer("it stops"))
    asking.join(60)
    assert answers == [Answer("it stops")]
    assert inbox.take() == ([], [])
    assert [path.name for path in (tmp_path / "control").iterdir()] == ["requests"]


def test_only_the_owner_can_read_and_write_what_is_asked(inbox: Inbox, tmp_path: Path) -> None:
    os.umask(before := os.umask(0))
    try:
        os.umask(0)  # the most generous
        assert ask(tmp_path, ["pause"], wait_s=0) is None
    finally:
        os.umask(before)
    (request,) = waiting(tmp_path)
    assert request.stat().st_mode & 0o777 == 0o600
    folders = (tmp_path / "control", tmp_path / "control" / "requests")
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700, 0o700]


def test_what_was_taken_up_by_a_process_that_was_killed_is_taken_up_again(
    inbox: Inbox, tmp_path: Path
) -> None:
    ask(tmp_path, ["pause"], wait_s=0)
    first = inbox.take()[0]
    ask(tmp_path, ["go"], wait_s=0)
    again = Inbox(tmp_path)
    again.open()
    assert taken(again) == [("pause",), ("go",)]
    again.answer(first[0], Answer(""))
    assert taken(again) == [("go",)]


@contextlib.contextmanager
def ctrl_c_once(is_time: Callable[[], bool]) -> Iterator[None]:
    """Send SIGINT to this process as soon as it is time."""

    def send() -> None:
        while not is_time():
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        sender.join()
        signal.signal(signal.SIGINT, before)


def test_a_request_that_nobody_takes_up_is_withdrawn_by_ctrl_c(inbox: Inbox, tmp_path: Path) -> None:
    with (
        ctrl_c_once(lambda: len(waiting(tmp_path)) == 1),
        pytest.raises(KeyboardInterrupt, match="Withdrawn: nothing has changed"),
    ):
        ask(tmp_path, ["pause"])
    assert inbox.take() == ([], [])


def test_one_that_was_taken_up_is_not_withdrawn_by_ctrl_c(inbox: Inbox, tmp_path: Path) -> None:
    with (
        ctrl_c_once(lambda: taken(inbox) == [("pause",)]),
        pytest.raises(KeyboardInterrupt, match="has taken the command up already"),
    ):
        ask(tmp_path, ["pause"])


def test_one_that_ctrl_c_interrupts_before_it_is_there_is_withdrawn(
    inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy disk may take seconds to sync it."""

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt, match="Withdrawn: nothing has changed"):
        ask(tmp_path, ["pause"])
    assert inbox.take() == ([], [])


def test_one_that_is_carried_out_on_a_full_disk_is_not_said_to_be_withdrawn_by_ctrl_c(
    inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is not there, and nothing else of it."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def carried_out(*_: object) -> None:
        (request,) = inbox.take()[0]
        monkeypatch.setattr(os, "fsync", full)
        inbox.answer(request, Answer("it pauses"))
        raise KeyboardInterrupt

    monkeypatch.setattr(control_requests, "_wait", carried_out)
    with pytest.raises(KeyboardInterrupt, match="has taken the command up already"):
        ask(tmp_path, ["pause"])
    assert [path.name for path in (tmp_path / "control").iterdir()] == ["requests"]


def test_it_is_refused_where_no_process_runs_the_sweep(tmp_path: Path) -> None:
    with lock.held(tmp_path):
        Inbox(tmp_path).open()
    with pytest.raises(control_requests.NotRunning):
        ask(tmp_path, ["pause"])
    assert waiting(tmp_path) == []


def test_it_is_refused_where_the_sweep_takes_none(inbox: Inbox, tmp_path: Path) -> None:
    assert inbox.close()
    with pytest.raises(UserError, match="takes no command now"):
        ask(tmp_path, ["pause"], wait_s=0)
    (tmp_path / "control").touch()  # by which it can't be steered
    with pytest.raises(UserError, match="takes no command now"):
        ask(tmp_path, ["pause"], wait_s=0)


def test_a_request_for_which_the_disk_has_no_room_is_refused(
    inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", no_room)
    with pytest.raises(UserError, match="No space left on device"):
        ask(tmp_path, ["pause"], wait_s=0)
    assert waiting(tmp_path) == []


def test_a_folder_is_closed_only_when_it_is_empty(inbox: Inbox, tmp_path: Path) -> None:
    ask(tmp_path, ["pause"], wait_s=0)
    assert not inbox.close()
    inbox.answer(inbox.take()[0][0], Answer("no", is_refused=True))
    assert inbox.close()


def test_a_link_is_no_request(inbox: Inbox, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"words": ["pause"]}')
    (tmp_path / "control" / "requests" / "1.json").symlink_to(tmp_path / "mine.json")
    found, (fault,) = inbox.take()
    assert (found, "1.json: " in fault) == ([], True)


@pytest.mark.parametrize(
    "content",
    [
        *('{"wor', "{}", "[]", "3", "null", '"words"', '{"words": 3}', '{"words": null}'),
        *('{"words": "pause"}', '{"words": []}', '{"words": [3]}', '{"words": {"pause": 1}}', "[" * 90_000),
        f'{{"words": ["{"x" * 200_000}"]}}',
    ],
    ids=lambda content: content[:20],
)
def test_a_file_of_another_content_is_refused_with_the_reason(
    content: str, inbox: Inbox, tmp_path: Path
) -> None:
    file = tmp_path / "control" / "requests" / "1.json"
    file.write_text(content)
    file.chmod(0o600)
    assert ask(tmp_path, ["go"], wait_s=0) is None
    found, (fault,) = inbox.take()
    assert [request.words for request in found] == [("go",)]
    assert "1.json: " in fault
    assert [path.stem for path in (tmp_path / "control").glob("*.json")] == [found[0].name]


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's file is made by root")
def test_what_another_user_has_made_is_refused(inbox: Inbox, tmp_path: Path) -> None:
    other = tmp_path / "control" / "requests" / "1.json"
    other.write_text('{"words": ["pause"]}')
    os.chown(other, 1234, 1234)
    found, (fault,) = inbox.take()
    assert (found, other.exists()) == ([], False)
    assert "belongs to user 1234; only the user who runs the sweep can steer it" in fault
    (tmp_path / "control" / "requests").chmod(0o777)
    with pytest.raises(PermissionError, match="a folder of this user that nobody else can write"):
        inbox.take()
    (tmp_path / "control" / "requests").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "control" / "requests").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="a folder of this user that nobody else can write"):
        inbox.take()
    os.chown(tmp_path, 1234, 1234)
    with pytest.raises(UserError, match="belongs to user 1234; only its owner can steer the sweep"):
        ask(tmp_path, ["pause"])
