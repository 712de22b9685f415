"""A command of the user to a sweep: its process is asked; where there is none, how the sweep goes on.

A note or tags of a sweep, or of its trials, are written all the same, also when it has ended.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from sweeps.common.errors import UserError
from sweeps.common.formatting import shown_path
from sweeps.common.yaml_values import nearest
from sweeps.config import control_commands
from sweeps.config.control_commands import Command
from sweeps.config.sweep_folder import JOURNAL, no_sweep, resume_command
from sweeps.record import control_requests, lock, status
from sweeps.record.control_requests import Answer
from sweeps.record.journal import RecordLost, RecordUnreadable
from sweeps.record.record import Record

KEPT = (
    "The sweep is starting or busy. It keeps the command, and will take it up; its screen says what it did."
)


class NoProcess(UserError):
    """No process runs the sweep."""

    def __init__(self, why: str, folder: Path, flags: Sequence[str]) -> None:
        super().__init__(why + resume_command(folder, *flags))
        self.why = why
        self.flags = tuple(flags)
        """Of a resume with which it would go on."""


def steer(folder: Path, words: Sequence[str]) -> Answer:
    """Ask a sweep to do what a command says; what it answers.

    Raises:
        NoProcess: no process runs it, and how it goes on.
        UserError: there is no sweep, its record can't be read, or it can't be steered now.
        KeyboardInterrupt: its text says what has become of the command.
    """
    while True:
        try:
            return control_requests.ask(folder.resolve(), words) or Answer(KEPT)
        except control_requests.NotRunning:
            if (command := control_commands.parse(words)).name in control_commands.ANNOTATING:
                with contextlib.suppress(lock.Taken):  # a resume has begun, or another note is written
                    return Answer(annotate_ended(folder, command))
                continue
            if (why := how_to_go_on(folder, words)) is not None:
                raise why from None
        except FileNotFoundError:  # its start has failed meanwhile
            raise UserError(no_sweep(folder) or f"{shown_path(folder)}: its files are gone") from None


def how_to_go_on(folder: Path, words: Sequence[str] = ()) -> NoProcess | None:
    """Why no process runs a sweep, and the command to go on; None where one has begun to since.

    Args:
        words: of a command that is to be done; (): to go on as it was.

    Raises:
        UserError: the record can't be read, or another version has made it.
    """
    try:
        record = Record.read(folder)
        if status.is_running(record):
            return None
        record.refuse_other_versions("go on with it")
    except (OSError, RecordUnreadable) as error:
        raise UserError(str(error)) from None
    shown, how, can_go_on = shown_path(folder), status.status(record), status.can_go_on(record)
    flags = status.flags_for(record, words, has_ended=not can_go_on)
    why = f"{shown}: no process runs this sweep; it is {how}. "
    if flags or can_go_on:
        why += "A resume does that: " if flags else "Resume it: "
    else:
        why = f"{shown}: the sweep is {how}. For more trials: "
        flags = ["--num-trials", str(2 * len(record.searched))]
    found = NoProcess(why, folder, [*status.flags_of_resume(record), *flags])
    # A process that has begun meanwhile has made the one or the other untrue.
    return None if lock.is_held(folder) else found


def annotate(record: Record, command: Command) -> str:
    """Write a note, or add or remove tags; what is answered.

    Raises:
        UserError: there is no such trial or tag; nothing has changed then.
    """
    number = None if command.trial < 0 else command.trial
    typed = command.name if number is None else f"{command.name} {number}"
    if number is not None and number >= len(record.trials):
        raise UserError(f"{typed}: {status.no_such_trial(record)}")
    what = "The sweep" if number is None else f"Trial {number}"
    if command.name == "note":
        record.annotate(number, note=command.note)
        return f"{what} has this note." if command.note else f"{what} has no note."
    had = [*(record.info if number is None else record.trials[number]).tags]
    if command.name == "tag":
        tags = list(dict.fromkeys([*had, *command.tags]))
    else:
        tags = [tag for tag in had if tag not in command.tags]
        for tag in command.tags:
            if tag not in had:
                listed = f" Tags: {', '.join(had)}" if had else " It has none"
                raise UserError(f"{typed} {tag}: no such tag.{nearest(tag, had)}{listed}")
    record.annotate(number, tags=tags)
    return f"{what} has the tags {', '.join(tags)}." if tags else f"{what} has no tag."


def annotate_ended(folder: Path, command: Command) -> str:
    """The same of a sweep that no process runs.

    The lock is held only to write: a large record is read for seconds, in which a resume may begin. The file
    keeps its time, by which the newest sweep is found.

    Raises:
        Taken: a process has begun to run it.
        UserError: the same, or the record can't be read or written.
    """
    journal = folder / JOURNAL
    try:
        while True:
            before = journal.stat()
            record = Record.read(folder)
            record.refuse_other_versions("annotate it")
            with lock.held(folder):
                now = journal.stat()
                if (now.st_ino, now.st_size) == (before.st_ino, before.st_size):
                    record.mend()
                    try:
                        return annotate(record, command)
                    finally:
                        os.utime(journal, ns=(now.st_atime_ns, now.st_mtime_ns))
    except (RecordUnreadable, RecordLost) as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{shown_path(folder)}: {error.strerror or error}") from None
