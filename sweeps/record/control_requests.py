"""Requests to the process that runs a sweep: files in its folder, taken from the user who runs it alone.

control/               mode 0700, made by the process that runs the sweep
  requests/ID.json     a request, mode 0600; the folder is there as long as requests are taken
  ID.json              one that was taken up: after `kill -9` a resume takes it up again
  ID.answer.json       its answer, for whoever asked
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeps.common import atomic_io
from sweeps.common.errors import UserError
from sweeps.common.formatting import shown_path
from sweeps.config.control_commands import WITHDRAWN
from sweeps.record import lock

CONTROL_FOLDER, REQUESTS_FOLDER = "control", "requests"
ANSWER = ".answer.json"
LOOK_EVERY_S = 0.1


@dataclass(frozen=True)
class Request:
    """A request that was taken up."""

    name: str
    words: tuple[str, ...]
    """Of the command, as they were typed."""


@dataclass(frozen=True)
class Answer:
    """What the sweep says to a request."""

    text: str
    is_refused: bool = False


class Inbox:
    """The requests to this process, which runs the sweep of a folder."""

    def __init__(self, folder: Path) -> None:
        self._control = folder / CONTROL_FOLDER
        self._requests = self._control / REQUESTS_FOLDER

    def open(self) -> None:
        """Take requests from now on; what was taken up before a crash is left to be taken up again."""
        for folder in (self._control, self._requests):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            if folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.geteuid():
                folder.chmod(0o700)  # a copy of a folder may have another mode
        self._refuse_unsafe()
        for left_over in self._control.glob(f"*{ANSWER}"):
            left_over.unlink()

    def take(self) -> tuple[list[Request], list[str]]:
        """The requests that have come, the oldest first, and a line about each that can't be trusted.

        Raises:
            OSError: a folder of the requests is not one of this user that nobody else can write.
        """
        self._refuse_unsafe()
        taken = [path for path in self._control.glob("*.json") if not path.name.endswith(ANSWER)]
        for path in self._requests.glob("[!.]*.json"):
            with contextlib.suppress(FileNotFoundError):  # withdrawn at this moment
                taken.append(path.rename(self._control / path.name))
        found, faults = [], []
        for path in sorted(taken, key=lambda each: each.name):
            try:
                found.append(Request(path.stem, _words(path)))
            except (OSError, ValueError, RecursionError) as error:  # the last of JSON nested too deep
                faults.append(f"{shown_path(path)}: {error}")
                path.unlink(missing_ok=True)
        return found, faults

    def _refuse_unsafe(self) -> None:
        """Files are removed and renamed here: a link to a folder elsewhere, say, must not be followed."""
        for folder in filter(os.path.lexists, (self._control, self._requests)):
            found = folder.lstat()
            is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
            if not is_own or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                why = "must be a folder of this user that nobody else can write"
                raise PermissionError(errno.EPERM, why, str(folder))

    def answer(self, request: Request, answer: Answer) -> None:
        """Answer a request, which is done with that. On a full disk its sender learns nothing."""
        with contextlib.suppress(OSError):
            file = self._control / f"{request.name}{ANSWER}"
            atomic_io.write(file, json.dumps(vars(answer)), 0o600)
        (self._control / f"{request.name}.json").unlink(missing_ok=True)

    def close(self) -> bool:
        """Take no request any more; False where one has just come."""
        with contextlib.suppress(FileNotFoundError):
            for unfinished in self._requests.glob(".*"):
                unfinished.unlink(missing_ok=True)
            try:
                self._requests.rmdir()
            except OSError:
                return not self._requests.is_dir()
            with contextlib.suppress(OSError):  # an answer that nobody has read yet
                self._control.rmdir()
        return True


class NotRunning(Exception):
    """No process runs the sweep."""


def ask(folder: Path, words: Sequence[str], wait_s: float = 10.0) -> Answer | None:
    """Ask the process that runs a sweep; None where it has not answered yet, and the request is kept: it may
    be starting, or be in the midst of a checkpoint.

    A request that Ctrl-C interrupts is withdrawn, unless it was taken up before.

    Raises:
        UserError: the folder belongs to another user, the sweep takes no request now, or the request can't
            be written.
        NotRunning: no process runs the sweep.
        KeyboardInterrupt: its text says what has become of the request.
    """
    requests, ends = folder / CONTROL_FOLDER / REQUESTS_FOLDER, time.monotonic() + wait_s
    if (owner := folder.stat().st_uid) != os.geteuid():
        raise UserError(f"{shown_path(folder)}: belongs to user {owner}; only its owner can steer the sweep")
    # Looked at once a turn: a process that writes a note of an ended sweep may take the lock at any moment.
    while (runs := lock.is_held(folder)) and not requests.is_dir() and time.monotonic() < ends:
        time.sleep(LOOK_EVERY_S)
    if not runs:
        raise NotRunning
    name = f"{time.time_ns()}-{secrets.token_hex(4)}"
    sent, answer = requests / f"{name}.json", requests.parent / f"{name}{ANSWER}"
    is_there = False
    try:
        atomic_io.write(sent, json.dumps({"words": list(words)}), 0o600)
        is_there = True
        return _wait(folder, answer, sent, ends)
    except (FileNotFoundError, NotADirectoryError):  # a file has the name of the folder
        raise UserError(
            f"{shown_path(folder)}: the sweep takes no command now: its trials have all ended, or its "
            "screen says why it can't be steered"
        ) from None
    except OSError as error:  # a full disk
        raise UserError(f"{shown_path(folder)}: can't be asked ({error.strerror or error})") from None
    except KeyboardInterrupt:
        # A busy disk may take seconds to sync it: then it is not there yet.
        traces = (requests.parent / sent.name, answer)  # none of one that is answered on a full disk
        if _withdraw(sent) or not (is_there or any(map(os.path.lexists, traces))):
            raise KeyboardInterrupt(WITHDRAWN) from None
        raise KeyboardInterrupt("The sweep has taken the command up already: see its screen.") from None


def _wait(folder: Path, answer: Path, sent: Path, ends: float) -> Answer | None:
    while not answer.is_file():
        if not lock.is_held(folder) and _withdraw(sent):
            raise NotRunning
        if time.monotonic() >= ends:
            return None
        time.sleep(LOOK_EVERY_S)
    found = Answer(**json.loads(answer.read_text()))
    answer.unlink(missing_ok=True)
    return found


def _withdraw(sent: Path) -> bool:
    """Whether a request was still there to be withdrawn."""
    try:
        sent.unlink()
    except OSError:
        return False
    return True


def _words(path: Path) -> tuple[str, ...]:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        if (owner := os.fstat(file.fileno()).st_uid) != os.geteuid():
            raise ValueError(f"belongs to user {owner}; only the user who runs the sweep can steer it")
        content = json.loads(file.read(200_000))
    words = content.get("words") if isinstance(content, dict) else None
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise ValueError('not a request: it must hold {"words": ["pause"]}, or other words of a command')
    return tuple(words)
